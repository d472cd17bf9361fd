import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useSession } from "@/app/session";
import { DeliveryBadge } from "@/parts/DeliveryBadge";
import { Panel } from "@/parts/Panel";
import { RowButton } from "@/parts/RowButton";
import { Rows } from "@/parts/Rows";
import { useRedeliver } from "@/parts/useRedeliver";
import { callbacksOfTaskQuery, type DeliveryTold } from "@/services/callbacks";
import { may } from "@/services/session";
import { useTexts } from "@/texts";

/** Who was told how it ended, and the button that tells them again. */
export function Callbacks({ taskId }: { taskId: number }) {
  const t = useTexts().callbacks;
  const deliveries = useQuery(callbacksOfTaskQuery(taskId)).data ?? [];
  if (deliveries.length === 0) return null;
  const heads = t.columns;
  return (
    <Panel title={t.title} flush>
      <Rows
        label={t.title}
        heads={[
          { text: heads.status, plain: true },
          { text: heads.kind },
          { text: heads.host },
          { text: heads.attempts, number: true },
          { text: heads.answer, wide: true },
          { text: "" },
        ]}
      >
        {deliveries.map((each) => (
          <Row key={each.id} delivery={each} />
        ))}
      </Rows>
    </Panel>
  );
}

function Row({ delivery }: { delivery: DeliveryTold }) {
  const t = useTexts().callbacks;
  const operator = may(useSession(), "operator");
  const again = useRedeliver();
  return (
    <tr>
      <td>
        <DeliveryBadge status={delivery.status} />
      </td>
      <td>{t.kind[delivery.kind]}</td>
      <td data-long data-muted={delivery.host === null || undefined}>
        {delivery.host ?? t.unsent}
      </td>
      <td data-number>
        <Link to="/callbacks" search={{ open: `${delivery.task_id}-${delivery.id}` }} aria-label={t.look(delivery.id)}>
          {delivery.attempts}
        </Link>
      </td>
      <td data-long>{[delivery.last_status, delivery.last_error].filter(Boolean).join(" · ") || "–"}</td>
      <td data-actions>
        {operator ? (
          <RowButton
            label={t.redeliverOne(delivery.id)}
            face={t.redeliver}
            loading={again.isPending}
            onClick={() => again.mutate(delivery)}
          />
        ) : null}
      </td>
    </tr>
  );
}
