import { queryOptions } from "@tanstack/react-query";
import { answered, api } from "./api";
import { anyTask } from "./refresh";
import type { SchemaResourceOut } from "./schema";

export type Resource = SchemaResourceOut;

const HOLDS_CHANGE_MS = 5_000; // a handler takes and leaves a resource without an event

export const resourcesQuery = queryOptions({
  queryKey: ["resources"],
  queryFn: async ({ signal }) => (await answered(api.GET("/api/resources", { signal }))).items,
  refetchInterval: HOLDS_CHANGE_MS,
  meta: { hears: anyTask, everyMs: 2_000 },
});
