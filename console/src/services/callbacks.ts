import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { answered, api } from "./api";
import { nextFilled } from "./pages";
import { anyTask } from "./refresh";
import type {
  paths,
  SchemaAttemptOut,
  SchemaCallbackKind,
  SchemaDelivery,
  SchemaDeliveryOut,
  SchemaDeliveryTold,
  SchemaRedelivered,
} from "./schema";
import type { Tone } from "./states";

export type Delivery = SchemaDeliveryOut;
export type DeliveryTold = SchemaDeliveryTold;
export type Attempt = SchemaAttemptOut;
export type DeliveryStatus = SchemaDelivery;
export type CallbackKind = SchemaCallbackKind;
export type Redelivered = SchemaRedelivered;
export type CallbackFilter = Omit<
  NonNullable<paths["/api/callbacks"]["get"]["parameters"]["query"]>,
  "cursor" | "limit"
>;

/** How loud a delivery's status is. One that is missing here does not compile. */
export const DELIVERY_TONES: Record<DeliveryStatus, Tone> = {
  pending: "live",
  blocked: "held",
  delivered: "good",
  undeliverable: "alarm",
  dropped: "past",
};
export const DELIVERY_STATUSES = Object.keys(DELIVERY_TONES) as DeliveryStatus[];

const PAGE = 50;
/** How many undeliverable ones one call sends again. */
export const MOST_AT_ONCE = 200;
const SOONEST_MS = 2_000;

/** An attempt is no event: what is pending is asked again when its next attempt was foretold. */
export function nextLook(deliveries: Delivery[], now: number): number | false {
  const due = deliveries.flatMap((each) =>
    each.status === "pending" && each.next_attempt_at ? [Date.parse(each.next_attempt_at)] : [],
  );
  return due.length === 0 ? false : Math.max(Math.min(...due) - now + 500, SOONEST_MS);
}

/** Callbacks over all tasks, newest first, page after page. */
export const callbacksQuery = (filter: CallbackFilter) =>
  infiniteQueryOptions({
    queryKey: ["callbacks", filter],
    queryFn: ({ signal, pageParam }) =>
      nextFilled(pageParam, (cursor) => {
        const query = { ...filter, limit: PAGE, ...(cursor === null ? {} : { cursor }) };
        return answered(api.GET("/api/callbacks", { params: { query }, signal }));
      }),
    initialPageParam: null as number | null,
    getNextPageParam: (last) => last.next_cursor,
    refetchInterval: ({ state }) =>
      nextLook(
        (state.data?.pages ?? []).flatMap((page) => page.items),
        Date.now(),
      ),
    meta: { hears: anyTask, everyMs: 1_500 },
  });

/** Callbacks that are sent again only by a person. */
export const undeliverableQuery = queryOptions({
  queryKey: ["callbacks", "undeliverable"],
  queryFn: ({ signal }) =>
    answered(
      api.GET("/api/callbacks", { params: { query: { status: "undeliverable", limit: MOST_AT_ONCE } }, signal }),
    ),
  meta: { hears: anyTask, everyMs: 1_500 },
});

/** How many callbacks are sent again only by a person. */
export const callbackCountsQuery = queryOptions({
  queryKey: ["callbacks", "counts"],
  queryFn: ({ signal }) => answered(api.GET("/api/callbacks/counts", { signal })),
  meta: { hears: anyTask, everyMs: 1_500 },
});

/** A task's callbacks with their attempts. */
export const callbacksOfTaskQuery = (taskId: number) =>
  queryOptions({
    queryKey: ["task", String(taskId), "callbacks"],
    queryFn: async ({ signal }) =>
      (await answered(api.GET("/api/tasks/{task_id}/callbacks", { params: { path: { task_id: taskId } }, signal })))
        .items,
    refetchInterval: ({ state }) => nextLook(state.data ?? [], Date.now()),
    meta: { hears: (event) => event.task_id === taskId, everyMs: 500 },
  });

/** Send one again, now. */
export function redeliver(delivery: Delivery): Promise<DeliveryTold> {
  return answered(
    api.POST("/api/tasks/{task_id}/redeliver", {
      params: { path: { task_id: delivery.task_id } },
      body: { delivery_id: delivery.id },
    }),
  );
}

/** Send the undeliverable ones that a filter finds again, now: 200 of them at most. */
export async function redeliverMany(filter: Omit<CallbackFilter, "status">): Promise<Redelivered[]> {
  return (await answered(api.POST("/api/callbacks/redeliver", { body: filter }))).items;
}
