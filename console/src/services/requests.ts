import { infiniteQueryOptions, keepPreviousData, queryOptions } from "@tanstack/react-query";
import { answered, api } from "./api";
import { anything } from "./refresh";
import type { paths, SchemaBusyOut, SchemaQueueStats, SchemaRequestIn, SchemaRequestJob } from "./schema";
import type { State } from "./states";

export type RequestJob = SchemaRequestJob;
export type RequestStatus = RequestJob["status"];
export type RequestType = SchemaRequestIn["type"];
export type QueueStats = SchemaQueueStats;
/** What a subscription is busy with. */
export type Busy = SchemaBusyOut;
export type RequestFilter = Pick<
  NonNullable<paths["/api/requests"]["get"]["parameters"]["query"]>,
  "lane" | "status" | "type" | "subscription_id"
>;
export type Lane = NonNullable<RequestFilter["lane"]>;

export const LANES: Lane[] = ["requires_cookie", "no_cookie"];
export const REQUEST_TYPES: RequestType[] = ["expected_total", "parse", "list_fetch", "download"];
/** The state of the engine that each of the queue's words is shown as. */
export const SHOWN_AS: Record<RequestStatus, State> = {
  queued: "queued",
  running: "running",
  paused: "paused",
  done: "succeeded",
  failed: "failed",
  canceled: "cancelled",
};

const PAGE = 50;

export const queueStatsQuery = queryOptions({
  queryKey: ["queue"],
  queryFn: ({ signal }) => answered(api.GET("/api/queue/stats", { signal })),
  meta: { hears: anything, everyMs: 700, often: true },
});

export const requestsQuery = (filter: RequestFilter) =>
  infiniteQueryOptions({
    queryKey: ["requests", filter],
    queryFn: ({ signal, pageParam }) =>
      answered(
        api.GET("/api/requests", {
          params: { query: { ...filter, size: PAGE, ...(pageParam === null ? {} : { cursor: pageParam }) } },
          signal,
        }),
      ),
    initialPageParam: null as number | null,
    getNextPageParam: (last) => last.next_cursor,
    meta: { hears: ofTheQueue, everyMs: 700, often: true },
  });

/** What these subscriptions are busy with, by the server's word; those of which nothing is open are left out. */
export const busyQuery = (subscriptions: number[]) =>
  queryOptions({
    queryKey: ["requests", "busy", subscriptions],
    queryFn: async ({ signal }) => {
      const query = { subscription_id: subscriptions };
      const found = await answered(api.GET("/api/requests/busy", { params: { query }, signal }));
      return new Map(found.items.map((each) => [each.subscription_id, each]));
    },
    enabled: subscriptions.length > 0,
    placeholderData: keepPreviousData,
    meta: { hears: ofTheQueue, everyMs: 700, often: true },
    structuralSharing: false,
  });

/** Whether an event is about a request. */
export function ofTheQueue(event: { lane: string | null; type: string | null; kind: string }): boolean {
  return event.kind === "" || (event.lane !== null && (LANES as string[]).includes(event.lane));
}

/** What people ask for goes before what programs enqueue (5), as the buttons of a subscription do. */
const ASKED_BY_PEOPLE = 3;

/** Start a request. A download without an address is of all that its subscription lacks: it begins with the list. */
export async function startRequest(request: SchemaRequestIn): Promise<RequestJob> {
  const { type, subscription_id, url } = request;
  if (type === "download" && !url && subscription_id) {
    const params = { path: { subscription_id } };
    const begun = await answered(api.POST("/api/subscriptions/{subscription_id}/download", { params }));
    return begun.requests[0] as RequestJob;
  }
  return answered(api.POST("/api/requests/enqueue", { body: { priority: ASKED_BY_PEOPLE, ...request } }));
}

export type RequestVerb = "pause" | "resume" | "cancel" | "prioritize";

/** Do something to one request; `prioritize` without a number puts it first. */
export function actOnRequest(id: number, verb: RequestVerb, priority?: number): Promise<RequestJob> {
  const params = { path: { request_id: id } };
  switch (verb) {
    case "pause":
      return answered(api.POST("/api/requests/{request_id}/pause", { params }));
    case "resume":
      return answered(api.POST("/api/requests/{request_id}/resume", { params }));
    case "cancel":
      return answered(api.POST("/api/requests/{request_id}/cancel", { params }));
    case "prioritize":
      return answered(
        api.POST("/api/requests/{request_id}/prioritize", { params, body: priority === undefined ? {} : { priority } }),
      );
  }
}
