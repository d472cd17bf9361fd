import { queryOptions } from "@tanstack/react-query";
import { answered, api } from "./api";
import { anything } from "./refresh";
import type { SchemaWorkerOut } from "./schema";

export type Worker = SchemaWorkerOut;

export const workersQuery = queryOptions({
  queryKey: ["workers"],
  queryFn: async ({ signal }) => (await answered(api.GET("/api/workers", { signal }))).items,
  meta: { hears: anything, everyMs: 2_000 },
});
