import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { answered, api } from "./api";
import { MOST_AT_ONCE } from "./bulk";
import { exactly } from "./exact";
import { nextFilled } from "./pages";
import { anyTask } from "./refresh";
import type { SchemaDone, SchemaEditIn, SchemaErrorGroupOut, SchemaLettersIn } from "./schema";

/** Which dead letters. */
export type Letters = Omit<{ [K in keyof SchemaLettersIn]?: NonNullable<SchemaLettersIn[K]> }, "tenant_id">;
export type Edit = Omit<SchemaEditIn, "merge"> & { merge?: Record<string, unknown> };
export type DeskVerb = "replay" | "resolve" | "discard";

export type ErrorGroup = SchemaErrorGroupOut;

/** What became of one, or would. `changes`: what an edit changes, field by field. */
export type Outcome = Omit<SchemaDone, "changes"> & { changes?: Record<string, { old?: unknown; new?: unknown }> };

const PAGE = 50;

/** Dead letters, newest first, page after page. */
export const lettersQuery = (letters: Letters) =>
  infiniteQueryOptions({
    queryKey: ["dead-letters", letters],
    queryFn: ({ signal, pageParam }) =>
      nextFilled(pageParam, (cursor) => {
        const query = { ...letters, limit: PAGE, ...(cursor === null ? {} : { cursor }) };
        return answered(api.GET("/api/dead-letters", { params: { query }, signal }));
      }),
    initialPageParam: null as number | null,
    getNextPageParam: (last) => last.next_cursor,
    meta: { hears: (event) => anyTask(event) && (event.kind === "" || touches(event)), everyMs: 1_000 },
  });

/** How many there are and what they died of, over all that a filter finds. */
export const errorGroupsQuery = (letters: Letters) =>
  queryOptions({
    queryKey: ["dead-letters", "groups", letters],
    queryFn: ({ signal }) =>
      answered(api.GET("/api/dead-letters/groups", { params: { query: { ...letters, limit: 6 } }, signal })),
    meta: { hears: (event) => anyTask(event) && (event.kind === "" || touches(event)), everyMs: 3_000 },
  });

function touches(event: { from: string | null; to: string | null }): boolean {
  return event.from === "dead" || event.to === "dead";
}

/** The ids of all that a filter finds, `most` at most. */
export async function allLetters(letters: Letters, most: number): Promise<number[]> {
  const ids: number[] = [];
  let cursor: number | null = null;
  do {
    const query: Letters & { limit: number; cursor?: number } = { ...letters, limit: MOST_AT_ONCE };
    if (cursor !== null) query.cursor = cursor;
    const page: { items: { id: number }[]; next_cursor: number | null } = await answered(
      api.GET("/api/dead-letters", { params: { query } }),
    );
    ids.push(...page.items.map((each) => each.id));
    cursor = page.next_cursor;
  } while (cursor !== null && ids.length < most);
  return ids.slice(0, most);
}

export interface Said {
  /** For a replay. */
  edit?: Edit;
  /** For `resolve`, which needs one, and `discard`. */
  remark?: string;
}

/** What would become of each of 200 at most, or, without `dryRun`, what has. */
export async function deal(ids: number[], verb: DeskVerb, said: Said, dryRun: boolean): Promise<Outcome[]> {
  return (await answer(ids, verb, said, dryRun)).items as Outcome[];
}

function answer(ids: number[], verb: DeskVerb, said: Said, dryRun: boolean) {
  const chosen = { ids, dry_run: dryRun };
  switch (verb) {
    case "replay":
      return answered(api.POST("/api/dead-letters/replay", { body: { ...chosen, edit: sent(said.edit ?? {}) } }));
    case "resolve": {
      const remark = dryRun ? said.remark || "…" : (said.remark ?? ""); // a dry run keeps none, and wants one
      return answered(api.POST("/api/dead-letters/resolve", { body: { ...chosen, remark } }));
    }
    case "discard":
      return answered(api.POST("/api/dead-letters/discard", { body: { ...chosen, remark: said.remark || null } }));
  }
}

/** Digit by digit: a replay must not change what was not edited. */
function sent(edit: Edit): SchemaEditIn {
  return exactly(edit) as SchemaEditIn;
}
