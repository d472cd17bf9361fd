import { isState, type State } from "@/services/states";
import type { TaskEvent } from "@/services/tasks";

/** One execution of a task, from its start to its end. */
export interface Attempt {
  number: number;
  execution: string;
  by: string;
  startedAt: string;
  endedAt: string | null;
  /** What it ended as; null: it goes on. */
  outcome: State | null;
  detail: string | null;
}

/** The executions that a task's history tells of, the latest first. */
export function attemptsOf(events: TaskEvent[]): Attempt[] {
  const found: Attempt[] = [];
  for (const event of events) {
    if (event.kind === "started" && event.exec_id) {
      found.push({
        number: found.length + 1,
        execution: event.exec_id,
        by: event.actor,
        startedAt: event.at,
        endedAt: null,
        outcome: null,
        detail: null,
      });
      continue;
    }
    const last = found.at(-1);
    if (last && last.endedAt === null && event.from === "running" && event.to !== "running" && event.to) {
      last.endedAt = event.at;
      last.outcome = isState(event.to) ? event.to : null;
      last.detail = event.detail;
    }
  }
  return found.reverse();
}
