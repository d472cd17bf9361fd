import { present, type Said, textIn, wordIn } from "@/app/address";
import type { CallbackFilter, CallbackKind, DeliveryStatus } from "@/services/callbacks";

/** What stands in the page's address: the filter, and the delivery that is open. */
export interface CallbacksSearch {
  status?: DeliveryStatus;
  kind?: CallbackKind;
  type?: string;
  host?: string;
  /** A delivery's id, with its task's. */
  open?: string;
}

const STATUSES: Record<DeliveryStatus, true> = {
  pending: true,
  blocked: true,
  delivered: true,
  undeliverable: true,
  dropped: true,
};
const KINDS: Record<CallbackKind, true> = { success: true, error: true };

export function readSearch(said: Said): CallbacksSearch {
  return present({
    status: wordIn(said.status, STATUSES),
    kind: wordIn(said.kind, KINDS),
    type: textIn(said.type),
    host: textIn(said.host),
    open: typeof said.open === "string" && /^\d{1,15}-\d{1,15}$/.test(said.open) ? said.open : undefined,
  });
}

export function filterOf({ open: _, ...filter }: CallbacksSearch): CallbackFilter {
  return filter;
}

/** "task-delivery", as it stands in the address. */
export function opened(search: CallbacksSearch): { taskId: number; id: number } | null {
  const [taskId, id] = (search.open ?? "").split("-").map(Number);
  return taskId && id ? { taskId, id } : null;
}
