import { Alert, Button, Drawer, Group, Text, Title } from "@mantine/core";
import { IconPencil, IconPlayerPlay, IconTrash } from "@tabler/icons-react";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { useSession } from "@/app/session";
import { Ago } from "@/parts/Ago";
import { Json } from "@/parts/Json";
import { LinkText } from "@/parts/links";
import { ProblemNote } from "@/parts/ProblemNote";
import badge from "@/parts/StateBadge.module.css";
import {
  RESULT_TONES,
  type Schedule,
  scheduleQuery,
  type TickLog,
  tickLogQuery,
  ticksQuery,
} from "@/services/periodic";
import { isGone } from "@/services/problem";
import { may } from "@/services/session";
import { useSpoken, useTexts } from "@/texts";
import { onTheClock } from "./clock";
import classes from "./page.module.css";
import { StatusBadge } from "./StatusBadge";
import { useActs } from "./useActs";

interface Props {
  id: number;
  onClose: () => void;
  onEdit: () => void;
}

const TICKS = 5;

/** One schedule: when it fires next, by which rules, and what became of its ticks. */
export function OneSchedule({ id, onClose, onEdit }: Props) {
  const texts = useTexts();
  const t = texts.periodic.one;
  const { close } = texts.common;
  const found = useQuery(scheduleQuery(id));
  return (
    <Drawer
      closeButtonProps={{ "aria-label": close }}
      opened
      onClose={onClose}
      position="right"
      size="lg"
      title={<strong>{t.title(id)}</strong>}
    >
      {isGone(found.error) ? <Alert color="gray">{t.gone}</Alert> : null}
      {found.error && !isGone(found.error) ? <ProblemNote error={found.error} retry={() => found.refetch()} /> : null}
      {found.data ? <Told schedule={found.data} onEdit={onEdit} onRemoved={onClose} /> : null}
    </Drawer>
  );
}

interface ToldProps {
  schedule: Schedule;
  onEdit: () => void;
  onRemoved: () => void;
}

function Told({ schedule, onEdit, onRemoved }: ToldProps) {
  const t = useTexts().periodic;
  const operator = may(useSession(), "operator");
  const { turn, fire, remove } = useActs(schedule.id);
  const online = schedule.status === "online";
  return (
    <>
      <Group gap="xs" mb="md">
        <StatusBadge status={schedule.status} />
        <strong>{schedule.type}</strong>
        <code className={classes.cron}>{schedule.cron_expressions}</code>
        <Text c="dimmed">{schedule.timezone}</Text>
      </Group>
      {operator ? (
        <Group gap="xs" mb="lg">
          <Button variant={online ? "default" : "filled"} loading={turn.isPending} onClick={() => turn.mutate(!online)}>
            {online ? t.goOffline(schedule.id) : t.goOnline(schedule.id)}
          </Button>
          <Button
            variant="default"
            leftSection={<IconPlayerPlay size={14} />}
            loading={fire.isPending}
            onClick={() => fire.mutate()}
          >
            {t.trigger}
          </Button>
          <Button variant="default" leftSection={<IconPencil size={14} />} onClick={onEdit}>
            {t.edit}
          </Button>
          <Button
            variant="subtle"
            color="red"
            leftSection={<IconTrash size={14} />}
            onClick={() => void remove(onRemoved)}
          >
            {t.remove}
          </Button>
        </Group>
      ) : null}
      <Section title={online ? t.one.ticks : t.one.ticksIfOnline}>
        <Ticks schedule={schedule} />
      </Section>
      <Section title={t.one.rules}>
        <Rules schedule={schedule} />
      </Section>
      <Section title={t.one.arguments}>
        <Json value={schedule.ext} />
      </Section>
      <Section title={t.one.log}>
        <TickLogs schedule={schedule} />
      </Section>
    </>
  );
}

function Section({ title, children }: { title: string; children: ReactNode }) {
  return (
    <section className={classes.section}>
      <Title order={3}>{title}</Title>
      {children}
    </section>
  );
}

/** As the server reckons them. */
function Ticks({ schedule }: { schedule: Schedule }) {
  const { t, language } = useSpoken();
  const ticks = useQuery(ticksQuery(schedule, TICKS));
  if (ticks.error) return <ProblemNote error={ticks.error} retry={() => ticks.refetch()} />;
  if (ticks.data?.length === 0) return <Text c="dimmed">{t.periodic.one.ticksNone}</Text>;
  return (
    <ol className={classes.ticks} aria-label={t.periodic.one.ticks}>
      {ticks.data?.map((tick) => (
        <li key={tick.at}>
          <span>{onTheClock(tick.local, language)}</span>
          <Ago at={tick.at} />
        </li>
      ))}
    </ol>
  );
}

function Rules({ schedule }: { schedule: Schedule }) {
  const t = useTexts().periodic;
  const further = Object.entries(schedule.task) as [keyof typeof t.form.task, string | number | null][];
  return (
    <dl className={classes.facts}>
      {schedule.http ? (
        <>
          <dt>{t.calls}</dt>
          <dd>
            {schedule.http.method} {schedule.http.url}
          </dd>
        </>
      ) : null}
      <dt>{t.form.missed}</dt>
      <dd>
        {t.missed[schedule.missed]} <small>{t.missedAbout[schedule.missed]}</small>
      </dd>
      <dt>{t.form.overlap}</dt>
      <dd>
        {t.overlap[schedule.overlap]} <small>{t.overlapAbout[schedule.overlap]}</small>
      </dd>
      <dt>{t.form.log}</dt>
      <dd>
        {t.log[schedule.log]} <small>{t.logAbout[schedule.log]}</small>
      </dd>
      {further.map(([name, value]) =>
        value === null ? null : (
          <div key={name} style={{ display: "contents" }}>
            <dt>{t.form.task[name]}</dt>
            <dd>{value}</dd>
          </div>
        ),
      )}
      {schedule.code ? (
        <>
          <dt />
          <dd>{t.code(schedule.code)}</dd>
        </>
      ) : null}
    </dl>
  );
}

function TickLogs({ schedule }: { schedule: Schedule }) {
  const t = useTexts().periodic;
  const log = useInfiniteQuery(tickLogQuery(schedule.id));
  const lines = log.data?.pages.flatMap((page) => page.items) ?? [];
  if (log.error) return <ProblemNote error={log.error} retry={() => log.refetch()} />;
  if (log.data && lines.length === 0) {
    return <Text c="dimmed">{schedule.log === "none" ? t.one.logOff : t.one.logNone}</Text>;
  }
  return (
    <>
      <ol className={classes.log} aria-label={t.one.log}>
        {lines.map((line) => (
          <LogLine key={line.id} line={line} />
        ))}
      </ol>
      {log.hasNextPage ? (
        <div className={classes.more}>
          <Button variant="subtle" loading={log.isFetchingNextPage} onClick={() => void log.fetchNextPage()}>
            {t.more}
          </Button>
        </div>
      ) : null}
    </>
  );
}

function LogLine({ line }: { line: TickLog }) {
  const t = useTexts().periodic;
  return (
    <li>
      <span>
        <span
          className={badge.badge}
          data-tone={RESULT_TONES[line.result]}
          data-busy={line.result === "executing" || undefined}
        >
          {t.results[line.result]}
        </span>
      </span>
      <span>
        {line.task_id === null ? null : (
          <LinkText underline="always" to="/tasks/$taskId" params={{ taskId: String(line.task_id) }}>
            {t.one.task(line.task_id)}
          </LinkText>
        )}{" "}
        {line.tick === null ? t.one.byHand : null}
      </span>
      <Ago at={line.tick ?? line.create_date} />
      {line.error_info ? <span className={classes.why}>{line.error_info}</span> : null}
    </li>
  );
}
