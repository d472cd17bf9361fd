import { headOf } from "@/parts/errors";
import type { Task } from "@/services/tasks";

/** Dead letters of one type that died of the same. */
export interface Group {
  type: string;
  /** What the error is; what differs from one to the next (numbers, ids) is an ellipsis. */
  error: string;
  /** The longest piece of it that they all have, to search for. */
  piece: string;
  ids: number[];
}

const VARYING = /\b[0-9a-f]{8}-[0-9a-f-]{27}\b|\b0x[0-9a-f]+\b|\d[\d.,:]*/gi;
const SHORTEST = 4;

/** What has gone wrong, and how often; the most frequent first. */
export function groupsOf(tasks: Task[]): Group[] {
  const found = new Map<string, Group>();
  for (const task of tasks) {
    const line = headOf(task.error_info);
    const error = line.replace(VARYING, "…");
    const key = `${task.type}\0${error}`;
    const group = found.get(key) ?? { type: task.type, error, piece: piece(line), ids: [] };
    group.ids.push(task.id);
    found.set(key, group);
  }
  return [...found.values()].sort((a, b) => b.ids.length - a.ids.length);
}

function piece(line: string): string {
  const pieces = line.split(VARYING).map((each) => each.trim());
  const longest = pieces.reduce((a, b) => (b.length > a.length ? b : a), "");
  return longest.length >= SHORTEST ? longest.slice(0, 200) : "";
}
