import { written } from "@/parts/Json";
import { readJson } from "@/services/exact";
import type { LogPolicy, Missed, Overlap, Schedule, ScheduleIn } from "@/services/periodic";

export const TASK_FIELDS = [
  "name",
  "lane",
  "priority",
  "mutex",
  "rate_key",
  "agent_id",
  "unique_key",
  "max_error_count",
  "timeout_seconds",
] as const;
export type TaskField = (typeof TASK_FIELDS)[number];
const NUMBERS: ReadonlySet<TaskField> = new Set(["priority", "max_error_count", "timeout_seconds"]);

export type Method = NonNullable<NonNullable<ScheduleIn["http"]>["method"]>;
export const METHODS: Method[] = ["POST", "PUT", "PATCH", "GET", "DELETE"];

/** A form as it is being filled in: everything is text until it is sent. */
export interface Draft {
  cron: string;
  zone: string;
  calls: boolean;
  type: string;
  url: string;
  method: Method;
  ext: string;
  missed: Missed;
  overlap: Overlap;
  log: LogPolicy;
  category: string;
  creator: string;
  tenant: string;
  task: Record<TaskField, string>;
  online: boolean;
}

/** What is wrong with a draft, field by field. Whether an expression can be read is for the server to say. */
export interface Wrong {
  cron?: true;
  type?: true;
  url?: "needed" | "bad";
  ext?: string;
  numbers?: ReadonlySet<string>;
}

/** The form of a schedule; without one, an empty form. */
export function draftOf(schedule: Schedule | null, zone: string): Draft {
  const task = Object.fromEntries(TASK_FIELDS.map((name) => [name, String(schedule?.task[name] ?? "")]));
  return {
    cron: schedule?.cron_expressions ?? "",
    zone: schedule?.timezone ?? zone,
    calls: Boolean(schedule?.http),
    type: schedule?.type ?? "",
    url: schedule?.http?.url ?? "",
    method: schedule?.http?.method ?? "POST",
    ext: schedule ? written(schedule.ext) : "{}",
    missed: schedule?.missed ?? "skip",
    overlap: schedule?.overlap ?? "allow",
    log: schedule?.log ?? "trans_log",
    category: schedule?.category ?? "",
    creator: schedule && schedule.creator !== 0 ? String(schedule.creator) : "",
    tenant: "",
    task: task as Record<TaskField, string>,
    online: true,
  };
}

/** What is wrong with it; an empty object if it can be sent. */
export function wrongWith(draft: Draft): Wrong {
  const wrong: Wrong = {};
  if (!draft.cron.trim()) wrong.cron = true;
  if (!draft.type.trim()) wrong.type = true;
  if (draft.calls && !draft.url.trim()) wrong.url = "needed";
  else if (draft.calls && !/^https?:\/\/[^/]/.test(draft.url.trim())) wrong.url = "bad";
  const ext = readJson(draft.ext);
  if ("problem" in ext) wrong.ext = ext.problem;
  const numbers = [...NUMBERS].filter((name) => !isNumber(draft.task[name])) as string[];
  if (!isNumber(draft.creator)) numbers.push("creator");
  if (!isNumber(draft.tenant)) numbers.push("tenant");
  if (numbers.length > 0) wrong.numbers = new Set(numbers);
  return wrong;
}

function isNumber(text: string): boolean {
  return text.trim() === "" || Number.isFinite(Number(text));
}

/** What is sent. The status of one that is there stays as it is. */
export function bodyOf(draft: Draft, isNew: boolean): ScheduleIn {
  const ext = readJson(draft.ext);
  const task = TASK_FIELDS.flatMap((name) => {
    const text = draft.task[name].trim();
    return text === "" ? [] : [[name, NUMBERS.has(name) ? Number(text) : text]];
  });
  return {
    type: draft.type.trim(),
    cron_expressions: draft.cron.trim(),
    timezone: draft.zone,
    ext: "value" in ext ? ext.value : {},
    missed: draft.missed,
    overlap: draft.overlap,
    log: draft.log,
    category: draft.category.trim() || null,
    creator: Number(draft.creator),
    http: draft.calls ? { url: draft.url.trim(), method: draft.method } : null,
    task: Object.fromEntries(task),
    ...(isNew ? { status: draft.online ? "online" : "new" } : {}),
    ...(isNew && draft.tenant.trim() ? { tenant_id: Number(draft.tenant) } : {}),
  };
}
