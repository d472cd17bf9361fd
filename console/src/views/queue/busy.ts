import type { RequestJob, RequestType } from "@/services/requests";
import type { Texts } from "@/texts";

export type Busy = Map<number, RequestJob>;

/** Why nothing may be started for a subscription now; null if something may. */
export function reasonAgainst(subscription: number | null, busy: Busy | undefined, t: Texts["queue"]): string | null {
  const job = subscription === null ? undefined : busy?.get(subscription);
  if (!job || subscription === null) return null;
  return t.start.busy(subscription, t.types[job.type as RequestType] ?? job.type, job.id, t.statuses[job.status]);
}
