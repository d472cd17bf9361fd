import { useMutation } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useSession } from "@/app/session";
import { Ago } from "@/parts/Ago";
import { useAsk } from "@/parts/Ask";
import { headOf } from "@/parts/errors";
import { Gauge } from "@/parts/Gauge";
import { Name } from "@/parts/Name";
import { complain, confirmDone } from "@/parts/problems";
import { RowButton } from "@/parts/RowButton";
import type { RequestType } from "@/services/requests";
import { may } from "@/services/session";
import {
  askSite,
  deleteSubscription,
  SUBSCRIPTION_VERBS,
  type Subscription,
  type SubscriptionVerb,
} from "@/services/subscriptions";
import { type Texts, useTexts } from "@/texts";
import classes from "./page.module.css";

/** One subscription; while something is open for it, its buttons say so instead. */
export function SubscriptionRow({ subscription }: { subscription: Subscription }) {
  const t = useTexts();
  const words = t.subscriptions;
  const session = useSession();
  const { items } = subscription;
  const known = items.listed + items.downloaded + items.missing + items.broken;
  const busy = busyText(subscription, t);
  return (
    <tr>
      <th scope="row" data-long>
        <a href={subscription.url} target="_blank" rel="noreferrer" title={subscription.url}>
          <Name of={subscription.name} />
        </a>
      </th>
      <td className={classes.progress}>
        {known > 0 ? (
          <Gauge label={words.progressOf(subscription.name)} value={items.downloaded} most={known} full="good" />
        ) : (
          "–"
        )}
      </td>
      <td data-number>{subscription.expected_total ?? "–"}</td>
      <td data-number>{items.missing + items.broken}</td>
      <td>
        <Ago at={subscription.listed_at} none={words.never} />
      </td>
      <td data-long title={busy ?? subscription.last_ended?.error ?? undefined}>
        {busy ? (
          <Link to="/queue" search={{ subscription_id: subscription.id }}>
            {busy}
          </Link>
        ) : subscription.last_ended ? (
          <LastEnded request={subscription.last_ended} />
        ) : null}
      </td>
      <td data-actions className={classes.actions}>
        {may(session, "submit")
          ? SUBSCRIPTION_VERBS.map((verb) => (
              <AskSite key={verb} subscription={subscription} verb={verb} busy={busy} known={known > 0} />
            ))
          : null}
        {may(session, "operator") ? <Remove subscription={subscription} /> : null}
      </td>
    </tr>
  );
}

/** How its last request ended: the only trace that a failed fetch leaves here. */
function LastEnded({ request }: { request: NonNullable<Subscription["last_ended"]> }) {
  const { queue, subscriptions } = useTexts();
  const failed = request.status === "failed";
  const type = queue.types[request.type as RequestType] ?? request.type;
  return (
    <span className={classes.ended} data-tone={failed ? "alarm" : undefined}>
      <Link to="/tasks/$taskId" params={{ taskId: String(request.request_id) }}>
        {subscriptions.ended(type, queue.statuses[request.status])} <Ago at={request.ended_at} />
        {failed && request.error ? `: ${headOf(request.error)}` : null}
      </Link>
    </span>
  );
}

/** What is under way for a subscription; null if nothing is. */
function busyText({ busy }: Subscription, t: Texts): string | null {
  if (!busy) return null;
  const type = t.queue.types[busy.type as RequestType] ?? busy.type;
  const text = t.subscriptions.busy(type, busy.request_id, t.queue.statuses[busy.status]);
  return busy.open > 1 ? text + t.subscriptions.more(busy.open - 1) : text;
}

interface AskProps {
  subscription: Subscription;
  verb: SubscriptionVerb;
  busy: string | null;
  known: boolean;
}

function AskSite({ subscription, verb, busy, known }: AskProps) {
  const t = useTexts();
  const words = t.subscriptions;
  const { id, name } = subscription;
  const asking = useMutation({
    mutationFn: () => askSite(id, verb),
    onSuccess: (count) => confirmDone(words.asked(words.verbs[verb], name, count)),
    onError: (error) => complain(error, t),
  });
  const against = busy ?? (verb === "downloadListed" && !known ? words.neverListed : null);
  return (
    <RowButton
      label={words.verbOf(words.verbs[verb], name)}
      face={words.verbs[verb]}
      about={words.verbsAbout[verb]}
      against={against}
      loading={asking.isPending}
      onClick={() => asking.mutate()}
    />
  );
}

function Remove({ subscription }: { subscription: Subscription }) {
  const t = useTexts();
  const words = t.subscriptions;
  const ask = useAsk();
  const removing = useMutation({
    mutationFn: () => deleteSubscription(subscription.id),
    onSuccess: () => confirmDone(words.removed(subscription.name)),
    onError: (error) => complain(error, t),
  });
  const title = words.removeTitle(subscription.name);
  const start = async () => {
    if (await ask({ title, body: words.removeAbout, yes: words.remove, danger: true })) removing.mutate();
  };
  return (
    <RowButton
      label={words.verbOf(words.remove, subscription.name)}
      face={words.remove}
      danger
      loading={removing.isPending}
      onClick={() => void start()}
    />
  );
}
