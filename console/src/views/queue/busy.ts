import type { Busy, RequestType } from "@/services/requests";
import type { Texts } from "@/texts";

export type BusyOnes = Map<number, Busy>;

/** Why nothing may be started for a subscription now; null if something may. */
export function reasonAgainst(
  subscription: number | null,
  busy: BusyOnes | undefined,
  t: Texts["queue"],
): string | null {
  const work = subscription === null ? undefined : busy?.get(subscription);
  if (!work || subscription === null) return null;
  const type = t.types[work.type as RequestType] ?? work.type;
  return t.start.busy(subscription, type, work.request_id, t.statuses[work.status]);
}
