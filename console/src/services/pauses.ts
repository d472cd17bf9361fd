import { queryOptions } from "@tanstack/react-query";
import { answered, api } from "./api";
import { anyAct } from "./refresh";
import type { SchemaPauseOut } from "./schema";

/** What is paused, by whom, why, since when and until when. */
export type Pause = SchemaPauseOut;
export type Scope = Pause["scope"];
/** What can be paused; the name is empty for everything. */
export type Subject = Pick<Pause, "scope" | "name">;

export const EVERYTHING: Subject = { scope: "all", name: "" };
export const SCOPES: Scope[] = ["lane", "type", "tenant", "key", "all"];

export const pausesQuery = queryOptions({
  queryKey: ["pauses"],
  queryFn: async ({ signal }) => (await answered(api.GET("/api/pauses", { signal }))).items,
  refetchInterval: ({ state }) => nextEnd(state.data ?? [], Date.now()),
  meta: { hears: anyAct, everyMs: 300 },
});

/** A pause that ends by itself is no event: what shows it is asked again then. */
export function nextEnd(pauses: (Pause | null)[], now: number): number | false {
  const ends = pauses.flatMap((pause) => (pause?.until ? [Date.parse(pause.until)] : []));
  return ends.length === 0 ? false : Math.min(Math.max(Math.min(...ends) - now + 300, 1_000), 86_400_000);
}

export function sameSubject(a: Subject, b: Subject): boolean {
  return a.scope === b.scope && a.name === b.name;
}

/** Let nothing more of it start, until it is resumed or, if there is one, until the end. */
export function pause(subject: Subject, reason = "", until: string | null = null): Promise<unknown> {
  const params = { query: { scope: written(subject) } };
  return answered(api.POST("/api/queue/pause", { params, body: { reason, until } }));
}

export function resume(subject: Subject): Promise<unknown> {
  return answered(api.POST("/api/queue/resume", { params: { query: { scope: written(subject) } } }));
}

function written({ scope, name }: Subject): string {
  return scope === "all" ? scope : `${scope}:${name}`;
}
