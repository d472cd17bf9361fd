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

const STATUSES: Record<DeliveryStatus, true> = { pending: true, delivered: true, undeliverable: true, dropped: true };
const KINDS: Record<CallbackKind, true> = { success: true, error: true };

export function readSearch(said: Record<string, unknown>): CallbacksSearch {
  const search: CallbacksSearch = {};
  if (typeof said.status === "string" && said.status in STATUSES) search.status = said.status as DeliveryStatus;
  if (typeof said.kind === "string" && said.kind in KINDS) search.kind = said.kind as CallbackKind;
  if (typeof said.type === "string" && said.type) search.type = said.type;
  if (typeof said.host === "string" && said.host) search.host = said.host;
  if (typeof said.open === "string" && /^\d+-\d+$/.test(said.open)) search.open = said.open;
  return search;
}

export function filterOf({ open: _, ...filter }: CallbacksSearch): CallbackFilter {
  return filter;
}

/** "task-delivery", as it stands in the address. */
export function opened(search: CallbacksSearch): { taskId: number; id: number } | null {
  const [taskId, id] = (search.open ?? "").split("-").map(Number);
  return taskId && id ? { taskId, id } : null;
}
