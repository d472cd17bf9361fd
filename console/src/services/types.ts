import { queryOptions } from "@tanstack/react-query";
import { answered, api } from "./api";
import { anyAct } from "./refresh";
import type { SchemaTypeOut } from "./schema";

export type TaskType = SchemaTypeOut;

export const typesQuery = queryOptions({
  queryKey: ["types"],
  queryFn: async ({ signal }) => (await answered(api.GET("/api/task-types", { signal }))).items,
  meta: { hears: anyAct },
});
