import { Link } from "@tanstack/react-router";
import { Ago } from "@/parts/Ago";
import { DeliveryBadge } from "@/parts/DeliveryBadge";
import { Name } from "@/parts/Name";
import { RowButton } from "@/parts/RowButton";
import { Rows } from "@/parts/Rows";
import { useNow } from "@/parts/useNow";
import type { Delivery } from "@/services/callbacks";
import { useTexts } from "@/texts";
import classes from "./page.module.css";

interface Props {
  deliveries: Delivery[];
  onOpen: (delivery: Delivery) => void;
  /** Left out for those who may not. */
  onRedeliver?: ((delivery: Delivery) => void) | undefined;
}

/** Callbacks as rows: what cannot be delivered stands out, with the receiver's last word. */
export function Deliveries({ deliveries, onOpen, onRedeliver }: Props) {
  const t = useTexts().callbacks;
  const heads = t.columns;
  return (
    <Rows
      label={t.title}
      cardsBelow={880}
      heads={[
        { text: heads.status, plain: true },
        { text: heads.task },
        { text: heads.type },
        { text: heads.kind },
        { text: heads.host },
        { text: heads.attempts, number: true },
        { text: heads.answer },
        { text: heads.when },
        { text: "" },
      ]}
    >
      {deliveries.map((each) => (
        <tr key={each.id} className={classes.row} data-status={each.status}>
          <td>
            <DeliveryBadge status={each.status} />
          </td>
          <td>
            <Link to="/tasks/$taskId" params={{ taskId: String(each.task_id) }}>
              {each.task_id}
            </Link>
          </td>
          <td data-long>
            <Name of={each.type} />
          </td>
          <td>{t.kind[each.kind]}</td>
          <td data-long data-muted={each.host === null || undefined}>
            {each.host === null ? t.unsent : <Name of={each.host} />}
          </td>
          <td data-number>{each.attempts}</td>
          <td data-long>
            <LastAnswer delivery={each} />
          </td>
          <td>
            <When delivery={each} />
          </td>
          <td data-actions>
            <RowButton label={t.look(each.id)} face={t.lookFace} onClick={() => onOpen(each)} />
            {onRedeliver ? (
              <RowButton label={t.redeliverOne(each.id)} face={t.redeliver} onClick={() => onRedeliver(each)} />
            ) : null}
          </td>
        </tr>
      ))}
    </Rows>
  );
}

function LastAnswer({ delivery }: { delivery: Delivery }) {
  const t = useTexts().callbacks;
  if (delivery.last_status === null && !delivery.last_error) return <span data-muted>–</span>;
  const said = [delivery.last_status ?? t.noAnswer, delivery.last_error].filter(Boolean).join(" · ");
  return (
    <span className={classes.answer} data-bad={delivery.status !== "delivered" || undefined} title={said}>
      {said}
    </span>
  );
}

function When({ delivery }: { delivery: Delivery }) {
  const t = useTexts().callbacks;
  const now = useNow();
  if (delivery.status === "pending" && delivery.next_attempt_at) {
    const rests = delivery.receiver_rests_until;
    const next = rests && Date.parse(rests) > Date.parse(delivery.next_attempt_at) ? rests : delivery.next_attempt_at;
    if (Date.parse(next) <= now) return <span data-muted>{t.sentNow}</span>;
    return (
      <>
        <span data-muted>{t.sentNext}</span> <Ago at={next} />
      </>
    );
  }
  return <Ago at={delivery.delivered_at ?? delivery.update_date} />;
}
