import type { Done, Verb } from "./tasks";

export type { Done } from "./tasks";

/** An action that somebody is about to do. */
export interface Act {
  verb: Verb;
  ids: number[];
}

/** Why tasks were refused, and how many for each reason; ids in a reason are not told apart. */
export function groupsOf(done: Done[]): [string, number][] {
  const counts = new Map<string, number>();
  for (const { problem } of done) {
    if (problem) counts.set(reasonOf(problem), (counts.get(reasonOf(problem)) ?? 0) + 1);
  }
  return [...counts].sort((a, b) => b[1] - a[1]);
}

function reasonOf(problem: string): string {
  return problem.replace(/\b(task) \d+/g, "$1 …");
}
