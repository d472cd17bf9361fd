import { queryOptions } from "@tanstack/react-query";
import { answered, api } from "./api";
import { exactly } from "./exact";
import { nextEnd } from "./pauses";
import { anyAct } from "./refresh";
import type { SchemaForeseenOut, SchemaStrategy, SchemaTypeIn, SchemaTypeOut } from "./schema";

export type TaskType = SchemaTypeOut;

export const typesQuery = queryOptions({
  queryKey: ["types"],
  queryFn: async ({ signal }) => (await answered(api.GET("/api/task-types", { signal }))).items,
  refetchInterval: ({ state }) =>
    nextEnd(
      (state.data ?? []).map((type) => type.pause ?? null),
      Date.now(),
    ),
  meta: { hears: anyAct },
});

export type TypeIn = SchemaTypeIn;
export type Strategy = SchemaStrategy;

/** A type as it is at this moment, not as it was when it was last shown. */
export function typeNow(code: string): Promise<TaskType> {
  return answered(api.GET("/api/task-types/{code}", { params: { path: { code } } }));
}

/** Add or replace a type; it holds at once, for waiting tasks too. */
export function saveType(code: string, said: TypeIn): Promise<TaskType> {
  return answered(api.PUT("/api/task-types/{code}", { params: { path: { code } }, body: exactly(said) as TypeIn }));
}

/** What an edit would mean for the tasks there are. `changes`: word by word, without secrets. */
export type Foreseen = Omit<SchemaForeseenOut, "changes"> & {
  changes: Record<string, { old?: unknown; new?: unknown }>;
};

/** What saving would mean. Nothing is changed. */
export async function rehearseType(code: string, said: TypeIn): Promise<Foreseen> {
  const params = { path: { code }, query: { dry_run: true } };
  const { foreseen } = await answered(api.PUT("/api/task-types/{code}", { params, body: exactly(said) as TypeIn }));
  return foreseen as unknown as Foreseen;
}

export function removeType(code: string): Promise<unknown> {
  return answered(api.DELETE("/api/task-types/{code}", { params: { path: { code } } }));
}
