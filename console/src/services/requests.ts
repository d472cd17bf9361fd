import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { answered, api } from "./api";
import { anything } from "./refresh";
import type { paths, SchemaQueueStats, SchemaRequestIn, SchemaRequestJob } from "./schema";
import type { State } from "./states";

export type RequestJob = SchemaRequestJob;
export type RequestStatus = RequestJob["status"];
export type RequestType = SchemaRequestIn["type"];
export type QueueStats = SchemaQueueStats;
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
  meta: { hears: anything, everyMs: 700 },
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
    meta: { hears: ofTheQueue, everyMs: 700 },
  });

/** What is under way for subscriptions: the request of each that is not over. */
export const busyQuery = queryOptions({
  queryKey: ["requests", "busy"],
  queryFn: async ({ signal }) => {
    const found = new Map<number, RequestJob>();
    for (const status of ["paused", "queued", "running"] as const) {
      const query = { status, size: 200 };
      for (const job of (await answered(api.GET("/api/requests", { params: { query }, signal }))).items) {
        if (job.subscription_id !== null) found.set(job.subscription_id, job);
      }
    }
    return found;
  },
  meta: { hears: ofTheQueue, everyMs: 700 },
  structuralSharing: false,
});

function ofTheQueue(event: { lane: string | null; type: string | null; kind: string }): boolean {
  return event.kind === "" || (event.lane !== null && (LANES as string[]).includes(event.lane));
}

export function enqueue(request: SchemaRequestIn): Promise<RequestJob> {
  return answered(api.POST("/api/requests/enqueue", { body: request }));
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
