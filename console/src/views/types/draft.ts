import type { Strategy, TaskType, TypeIn } from "@/services/types";

export type Method = "POST" | "PUT";

/** A form as it is being filled in: numbers are text until they are sent. */
export interface Draft {
  code: string;
  name: string;
  category: string;
  lane: string;
  uses: string[];
  priority: string;
  mutex: string;
  rate_key: string;
  unique_key: string;
  /** The unique key is made of all arguments. */
  byArguments: boolean;
  /** Empty: as long as the task is open. */
  uniqueSeconds: string;
  /** Empty: not debounced. */
  debounce: string;
  debounceLongest: string;
  debounceReplace: boolean;
  strategy: Strategy;
  retries: string;
  interval: string;
  sequence: string;
  initial: string;
  factor: string;
  cap: string;
  jitter: string;
  timeout: string;
  needManual: boolean;
  unknownErrors: "retry" | "fail";
  onChildFailure: "continue" | "cancel";
  success: { url: string; method: Method };
  error: { url: string; method: Method };
  signed: boolean;
  ak: string;
  /** Empty: the secret that is there stays. */
  sk: string;
}

export type Numeric = "priority" | "retries" | "interval" | "initial" | "factor" | "cap" | "jitter" | "timeout";
/** What keys a task of this type has, made of its arguments. */
export const KEYS = ["mutex", "rate_key", "unique_key"] as const;
/** For how long tasks are unique, or debounced; each may be empty. */
export const PERIODS = ["uniqueSeconds", "debounce", "debounceLongest"] as const;
export type Wrong = Partial<
  Record<keyof Draft, "needed" | "number" | "url" | "ak" | "sk" | "skAgain" | "seconds" | "both" | "key" | "debounce">
>;

const MANY = 24;
const NEW: Partial<TaskType> = {};

/** The form of a type; without one, the defaults. */
export function draftOf(type: TaskType | null): Draft {
  const config = type?.config;
  const target = (kind: "success" | "error") => ({
    url: config?.callback[kind]?.url ?? "",
    method: config?.callback[kind]?.method ?? ("POST" as const),
  });
  return {
    code: type?.code ?? "",
    name: type?.name ?? "",
    category: type?.category ?? "",
    lane: type?.lane ?? "default",
    uses: type?.uses ?? [],
    priority: String(type?.priority ?? 5),
    mutex: type?.mutex ?? "",
    rate_key: type?.rate_key ?? "",
    unique_key: type?.unique_key ?? "",
    byArguments: type?.unique === "arguments",
    uniqueSeconds: String(type?.unique_seconds ?? ""),
    debounce: String(type?.debounce_seconds ?? ""),
    debounceLongest: String(type?.debounce_longest_seconds ?? ""),
    debounceReplace: type?.debounce_replace ?? true,
    strategy: config?.retry_strategy ?? "exponential",
    retries: String(config?.max_error_count ?? 4),
    interval: String(config?.retry_interval ?? 60),
    sequence: (config?.retry_sequence ?? []).join(", "),
    initial: String(config?.initial_delay ?? 5),
    factor: String(config?.factor ?? 2),
    cap: String(config?.cap ?? 3600),
    jitter: String(config?.jitter ?? 0.1),
    timeout: String(config?.timeout ?? 30),
    needManual: config?.need_manual ?? false,
    unknownErrors: config?.unknown_errors === "fail" ? "fail" : "retry",
    onChildFailure: config?.on_child_failure === "cancel" ? "cancel" : "continue",
    success: target("success"),
    error: target("error"),
    signed: config?.callback.security?.type === "aksk",
    ak: config?.callback.security?.ak ?? "",
    sk: "",
  };
}

/** What is wrong with a draft; an empty object if it can be sent. */
export function wrongWith(draft: Draft, before: TaskType | null): Wrong {
  const wrong: Wrong = {};
  if (!draft.code.trim()) wrong.code = "needed";
  if (!draft.lane.trim()) wrong.lane = "needed";
  for (const name of asked(draft)) if (!isAmount(draft[name])) wrong[name] = "number";
  if (draft.strategy === "sequence" && (delaysOf(draft.sequence)?.length ?? 0) === 0) wrong.sequence = "number";
  Object.assign(wrong, wrongWithUnique(draft));
  for (const kind of ["success", "error"] as const) {
    if (draft[kind].url.trim() && !/^https?:\/\/[^/]/.test(draft[kind].url.trim())) wrong[kind] = "url";
  }
  if (draft.signed) {
    const known = before?.config.callback.security;
    if (!/^[A-Za-z0-9._~-]{1,128}$/.test(draft.ak.trim())) wrong.ak = "ak";
    if (draft.sk && !/^[!-~]{24,255}$/.test(draft.sk)) wrong.sk = "sk";
    if (!draft.sk && known?.ak !== draft.ak.trim()) wrong.sk = known?.ak ? "skAgain" : "needed";
  }
  return wrong;
}

function wrongWithUnique(draft: Draft): Wrong {
  const wrong: Wrong = {};
  const keyed = draft.byArguments || draft.unique_key.trim() !== "";
  if (draft.byArguments && draft.unique_key.trim()) wrong.unique_key = "both";
  if (draft.uniqueSeconds.trim() && !keyed) wrong.uniqueSeconds = "key";
  if (draft.debounce.trim() && !keyed) wrong.debounce = "key";
  if (draft.debounceLongest.trim() && !draft.debounce.trim()) wrong.debounceLongest = "debounce";
  if (draft.uniqueSeconds.trim() && draft.debounce.trim()) wrong.debounce = "both";
  for (const name of PERIODS) if (draft[name].trim() && !(Number(draft[name]) > 0)) wrong[name] = "seconds";
  return wrong;
}

/** The numbers that matter for its strategy. */
function asked(draft: Draft): Numeric[] {
  const delays: Record<Strategy, Numeric[]> = {
    none: [],
    fixed_period: ["retries", "interval"],
    sequence: ["retries"],
    exponential: ["retries", "initial", "factor", "cap", "jitter"],
  };
  return ["priority", "timeout", ...delays[draft.strategy]];
}

function isAmount(text: string): boolean {
  return text.trim() !== "" && Number(text) >= 0;
}

/** "5, 30, 120" as seconds; null if it is none. */
function delaysOf(text: string): number[] | null {
  const parts = text.split(/[\s,;，；]+/).filter(Boolean);
  return parts.every(isAmount) ? parts.map(Number) : null;
}

/** After how many seconds each further try would come, without the jitter; the first few of them. */
export function delays(draft: Draft): number[] {
  const count = Math.min(Number(draft.retries) || 0, MANY);
  const each = Array.from({ length: count }, (_, at) => at);
  switch (draft.strategy) {
    case "none":
      return [];
    case "fixed_period":
      return each.map(() => Number(draft.interval));
    case "sequence": {
      const sequence = delaysOf(draft.sequence) ?? [];
      return each.flatMap((at) => sequence[Math.min(at, sequence.length - 1)] ?? []);
    }
    case "exponential":
      return each.map((at) => Math.min(Number(draft.initial) * Number(draft.factor) ** at, Number(draft.cap)));
  }
}

/** What is sent. What the form does not know of the type stays as it was; a secret goes along only if one was typed. */
export function bodyOf(draft: Draft, before: TaskType | null): TypeIn {
  const { code: _code, edited: _edited, declared_by: _place, foreseen: _foreseen, config, ...rest } = before ?? NEW;
  const target = (kind: "success" | "error") =>
    draft[kind].url.trim() ? { [kind]: { url: draft[kind].url.trim(), method: draft[kind].method } } : {};
  const number = (name: Numeric, kept: number | undefined, otherwise: number) =>
    isAmount(draft[name]) ? Number(draft[name]) : (kept ?? otherwise);
  return {
    ...rest,
    name: draft.name.trim(),
    category: draft.category.trim(),
    lane: draft.lane.trim(),
    uses: draft.uses,
    priority: number("priority", before?.priority, 5),
    mutex: draft.mutex.trim() || null,
    rate_key: draft.rate_key.trim() || null,
    unique_key: draft.unique_key.trim() || null,
    unique: draft.byArguments ? "arguments" : null,
    unique_seconds: Number(draft.uniqueSeconds) || null,
    debounce_seconds: Number(draft.debounce) || null,
    debounce_longest_seconds: Number(draft.debounceLongest) || null,
    debounce_replace: draft.debounceReplace,
    config: {
      retry_strategy: draft.strategy,
      max_error_count: draft.strategy === "none" ? 0 : Number(draft.retries),
      retry_interval: number("interval", config?.retry_interval, 0),
      retry_sequence: delaysOf(draft.sequence) ?? config?.retry_sequence ?? [],
      initial_delay: number("initial", config?.initial_delay, 5),
      factor: number("factor", config?.factor, 2),
      cap: number("cap", config?.cap, 3600),
      jitter: number("jitter", config?.jitter, 0.1),
      timeout: number("timeout", config?.timeout, 30),
      need_manual: draft.needManual,
      unknown_errors: draft.unknownErrors,
      retry_on: config?.retry_on ?? [],
      fatal: config?.fatal ?? [],
      on_child_failure: draft.onChildFailure,
      callback: {
        ...target("success"),
        ...target("error"),
        ...(draft.signed
          ? { security: { type: "aksk", ak: draft.ak.trim(), ...(draft.sk ? { sk: draft.sk } : {}) } }
          : {}),
      },
    },
  };
}
