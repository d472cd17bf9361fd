import { Alert, Button, Drawer, Group, Text, Title } from "@mantine/core";
import { IconRefresh } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useSession } from "@/app/session";
import { Ago } from "@/parts/Ago";
import { DeliveryBadge } from "@/parts/DeliveryBadge";
import { duration } from "@/parts/formats";
import { Copy, Plain } from "@/parts/Json";
import { LinkText } from "@/parts/links";
import { ProblemNote } from "@/parts/ProblemNote";
import { useRedeliver } from "@/parts/useRedeliver";
import { type Attempt, callbacksOfTaskQuery, type DeliveryTold } from "@/services/callbacks";
import { may } from "@/services/session";
import { useTexts } from "@/texts";
import classes from "./page.module.css";

interface Props {
  taskId: number;
  id: number;
  onClose: () => void;
}

/** One callback: every attempt of it, and the button that sends it again. */
export function Attempts({ taskId, id, onClose }: Props) {
  const texts = useTexts();
  const t = texts.callbacks.one;
  const { close } = texts.common;
  const found = useQuery(callbacksOfTaskQuery(taskId));
  const delivery = found.data?.find((each) => each.id === id);
  return (
    <Drawer
      closeButtonProps={{ "aria-label": close }}
      opened
      onClose={onClose}
      position="right"
      size="lg"
      title={<strong>{t.title(id)}</strong>}
    >
      {found.error ? <ProblemNote error={found.error} retry={() => found.refetch()} /> : null}
      {found.data && !delivery ? <Alert color="gray">{t.gone}</Alert> : null}
      {delivery ? <Told delivery={delivery} /> : null}
    </Drawer>
  );
}

function Told({ delivery }: { delivery: DeliveryTold }) {
  const t = useTexts().callbacks;
  const operator = may(useSession(), "operator");
  const again = useRedeliver();
  return (
    <>
      <Group justify="space-between" mb="md">
        <DeliveryBadge status={delivery.status} />
        {operator ? (
          <Button
            variant={delivery.status === "undeliverable" ? "filled" : "default"}
            leftSection={<IconRefresh size={14} />}
            loading={again.isPending}
            onClick={() => again.mutate(delivery)}
          >
            {t.redeliver}
          </Button>
        ) : null}
      </Group>
      <dl className={classes.facts}>
        <dt>{t.one.task}</dt>
        <dd>
          <LinkText underline="always" to="/tasks/$taskId" params={{ taskId: String(delivery.task_id) }}>
            {delivery.task_id}
          </LinkText>{" "}
          · {delivery.type} · {t.kind[delivery.kind]}
        </dd>
        <dt title={t.one.webhookAbout}>{t.one.webhook}</dt>
        <dd>
          <code>{delivery.webhook_id}</code> <Copy text={delivery.webhook_id} />
        </dd>
        <dt>{t.one.made}</dt>
        <dd>
          <Ago at={delivery.created_at} />
        </dd>
        {delivery.status === "pending" ? (
          <>
            <dt>{t.one.next}</dt>
            <dd>
              <Ago at={delivery.next_attempt_at} />
            </dd>
          </>
        ) : null}
        {delivery.delivered_at ? (
          <>
            <dt>{t.one.delivered}</dt>
            <dd>
              <Ago at={delivery.delivered_at} />
            </dd>
          </>
        ) : null}
      </dl>
      <Title order={3} mb="xs">
        {t.one.attempts}
      </Title>
      {delivery.history.length === 0 ? <Text c="dimmed">{t.one.none}</Text> : null}
      <ol className={classes.attempts}>
        {delivery.history.map((attempt) => (
          <AttemptLine key={attempt.id} attempt={attempt} />
        ))}
      </ol>
    </>
  );
}

function AttemptLine({ attempt }: { attempt: Attempt }) {
  const t = useTexts().callbacks;
  const good = attempt.status !== null && attempt.status >= 200 && attempt.status < 300;
  return (
    <li data-tone={good ? "good" : "alarm"}>
      <div className={classes.line}>
        <b>{attempt.status ?? t.noAnswer}</b>
        <span>{attempt.host}</span>
        <span>{duration(attempt.seconds)}</span>
        <span>
          <Ago at={attempt.at} />
        </span>
      </div>
      {attempt.error ? <div className={classes.why}>{attempt.error}</div> : null}
      {attempt.answer ? <Plain text={attempt.answer} /> : null}
    </li>
  );
}
