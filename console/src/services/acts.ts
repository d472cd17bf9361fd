import type { Params } from "./codes";
import type { Verb } from "./tasks";

export type { Done } from "./tasks";

/** An action that somebody is about to do. */
export interface Act {
  verb: Verb;
  ids: number[];
}

/** A refusal of one task among many: which task it was is not told. */
export interface Refusal {
  problem?: string | null | undefined;
  code?: string | undefined;
  params?: Params | undefined;
}

/** Why tasks were refused, as `say` puts it, and how many for each reason. */
export function groupsOf(done: Refusal[], say: (refusal: Refusal) => string): [string, number][] {
  const counts = new Map<string, number>();
  for (const { problem, code, params } of done) {
    if (!problem) continue;
    const { task_id: _, ...others } = params ?? {};
    const reason = say({ problem, code, params: others });
    counts.set(reason, (counts.get(reason) ?? 0) + 1);
  }
  return [...counts].sort((a, b) => b[1] - a[1]);
}
