import { written } from "@/parts/Json";
import type { Edit } from "@/services/desk";
import { readJson } from "@/services/exact";
import type { Task } from "@/services/tasks";

/** The edit-and-replay form as it is being filled in. For many tasks `ext` is what is merged into each. */
export interface Draft {
  ext: string;
  priority: string;
  lane: string;
  timeout_seconds: string;
  max_error_count: string;
}

export type Numeric = "priority" | "timeout_seconds" | "max_error_count";
export const NUMERIC: Numeric[] = ["priority", "timeout_seconds", "max_error_count"];

export interface Wrong {
  ext?: { json: string } | "object";
  numbers?: ReadonlySet<Numeric>;
}

/** One task's own arguments, to be edited; for many, nothing yet. */
export function draftOf(task: Task | null): Draft {
  return {
    ext: task ? written(task.ext) : "{}",
    priority: task ? String(task.priority) : "",
    lane: task?.lane ?? "",
    timeout_seconds: task?.timeout_seconds == null ? "" : String(task.timeout_seconds),
    max_error_count: task?.max_error_count == null ? "" : String(task.max_error_count),
  };
}

export function wrongWith(draft: Draft, task: Task | null): Wrong {
  const wrong: Wrong = {};
  const ext = readJson(draft.ext);
  if ("problem" in ext) wrong.ext = { json: ext.problem };
  else if (task === null && !isObject(ext.value)) wrong.ext = "object";
  const numbers = NUMERIC.filter((name) => draft[name].trim() !== "" && !Number.isFinite(Number(draft[name])));
  if (numbers.length > 0) wrong.numbers = new Set(numbers);
  return wrong;
}

/** What is sent: only what was changed. */
export function editOf(draft: Draft, task: Task | null): Edit {
  const before = draftOf(task);
  const edit: Edit = {};
  const ext = readJson(draft.ext);
  if ("value" in ext) {
    if (task !== null && draft.ext !== before.ext) edit.ext = ext.value;
    if (task === null && isObject(ext.value) && Object.keys(ext.value).length > 0) edit.merge = ext.value;
  }
  const lane = draft.lane.trim();
  if (lane && lane !== before.lane) edit.lane = lane;
  for (const name of NUMERIC) {
    const text = draft[name].trim();
    if (text !== "" && text !== before[name]) edit[name] = Number(text);
  }
  return edit;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
