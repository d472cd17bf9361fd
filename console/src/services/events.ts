import { queryOptions } from "@tanstack/react-query";
import { answered, api } from "./api";

/** What happened last, newest first; what happens from then on comes by itself (`useEvents`). */
export const latestEventsQuery = queryOptions({
  queryKey: ["events", "latest"],
  queryFn: async ({ signal }) =>
    (await answered(api.GET("/api/events/latest", { params: { query: { limit: 200 } }, signal }))).items,
  gcTime: 0,
});
