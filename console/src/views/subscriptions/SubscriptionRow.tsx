import { ActionIcon, Tooltip } from "@mantine/core";
import { IconDownload, IconHash, IconPlaylistAdd, IconRefresh, IconTrash } from "@tabler/icons-react";
import { useMutation } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { ComponentType } from "react";
import { useSession } from "@/app/session";
import { Ago } from "@/parts/Ago";
import { useAsk } from "@/parts/Ask";
import { headOf } from "@/parts/errors";
import { Gauge } from "@/parts/Gauge";
import { complain, confirmDone } from "@/parts/problems";
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

const ICONS: Record<SubscriptionVerb, ComponentType<{ size?: number | string }>> = {
  expectedTotal: IconHash,
  refreshList: IconRefresh,
  download: IconDownload,
  downloadListed: IconPlaylistAdd,
};

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
      <th scope="row" className={classes.name}>
        <a href={subscription.url} target="_blank" rel="noreferrer" title={subscription.url}>
          {subscription.name}
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
      <td className={classes.busy} title={busy ?? subscription.last_ended?.error ?? undefined}>
        {busy ? (
          <Link to="/queue" search={{ subscription_id: subscription.id }}>
            {busy}
          </Link>
        ) : subscription.last_ended ? (
          <LastEnded request={subscription.last_ended} />
        ) : null}
      </td>
      <td>
        <div className={classes.actions}>
          {may(session, "submit")
            ? SUBSCRIPTION_VERBS.map((verb) => (
                <AskSite key={verb} subscription={subscription} verb={verb} busy={busy} known={known > 0} />
              ))
            : null}
          {may(session, "operator") ? <Remove subscription={subscription} /> : null}
        </div>
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
  const Icon = ICONS[verb];
  const against = busy ?? (verb === "downloadListed" && !known ? words.neverListed : null);
  return (
    <Tooltip label={against ?? words.verbsAbout[verb]} multiline maw={320}>
      <ActionIcon
        aria-label={words.verbOf(words.verbs[verb], name)}
        {...(against ? { "aria-disabled": true, "data-disabled": true, "aria-description": against } : {})}
        loading={asking.isPending}
        onClick={(event) => (against ? event.preventDefault() : asking.mutate())}
      >
        <Icon size={16} />
      </ActionIcon>
    </Tooltip>
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
  const label = words.verbOf(words.remove, subscription.name);
  return (
    <Tooltip label={label}>
      <ActionIcon aria-label={label} c="var(--tone-alarm)" loading={removing.isPending} onClick={() => void start()}>
        <IconTrash size={14} />
      </ActionIcon>
    </Tooltip>
  );
}
