import { duration } from "@/parts/formats";
import type { Params, ReasonCode, RefusalCode, Sentence } from "@/services/codes";
import type { SchemaEndReason } from "@/services/schema";
import type { State } from "@/services/states";
import { states } from "./shared.en";

const SCOPES: Record<string, string> = {
  all: "everything",
  lane: "lane",
  type: "type",
  tenant: "tenant",
  key: "rate key",
};
const subject = ({ scope, name }: Params) => [SCOPES[String(scope)] ?? scope, name].filter(Boolean).join(" ");
const limit = (p: Params) => (p.limit === "mutexes" ? `mutexes of lane ${p.name}` : `${p.limit} ${p.name}`.trim());
const ahead = (p: Params) => `${limit(p)}: ${p.ahead ? `${p.ahead} ahead` : "next in line"}`;
const capacity = (p: Params) =>
  `${p.name}: ${p.running} of ${p.capacity} running${p.others ? `, ${p.others} not yours` : ""}`;
const tokens = (p: Params) => `${p.name}: ${p.tokens} of ${p.burst} tokens, ${p.rate} a second`;
const attempts = (p: Params) =>
  `${p.host}: ${p.attempts === 1 ? "1 attempt" : `${p.attempts} attempts`}, the last came to ${p.last}`;
const UNMEASURED = "nothing like it has finished lately: how long one takes is not known";

export const reasons = {
  "not-started": (p) => `it is ${states.words[p.status as State] ?? p.status}`,
  "in-broker": (p) => `in the broker since ${p.since}, in the queue ${p.queue}`,
  started: (p) => `it has started and is ${states.words[p.status as State] ?? p.status}`,
  ended: (p) => `it is ${states.words[p.status as State] ?? p.status}`,
  "time-come": () => "its time has come",
  "start-ahead": () => "its start time is ahead",
  "retry-ahead": () => "it failed and runs again then",
  "not-paused": () => "nothing is paused",
  "task-paused": () => "the task is paused",
  paused: (p) => `${subject(p)} is paused${p.actor ? ` by ${p.actor}` : ""}${p.reason ? `: ${p.reason}` : ""}`,
  "no-limit": (p) => `${p.name}: no limit, ${p.running} running`,
  "has-room": capacity,
  full: capacity,
  "mutex-free": (p) => `${p.mutex}: free`,
  "mutex-own": (p) => `${p.mutex}: held by this task`,
  "mutex-held": (p) => `${p.mutex}: held by ${p.task_id}`,
  "mutex-ahead": (p) => `${p.mutex}: ${p.task_id} goes first`,
  "has-tokens": tokens,
  "no-tokens": tokens,
  "start-free": (p) => `agent ${p.agent_id}: the next start may come`,
  "start-held": (p) => `agent ${p.agent_id}: one start in ${p.seconds} s`,
  served: (p) => `${p.servers} serve${p.servers === 1 ? "s" : ""} ${p.type}`,
  "workers-busy": (p) =>
    `${p.busy} of ${p.slots} slots busy on ${p.worker ? `worker ${p.worker}` : `${p.workers} workers`}`,
  "agents-busy": (p) =>
    p.agent
      ? `agent ${p.agent} holds ${p.busy} and last asked for work ${duration(Number(p.asked_seconds))} ago`
      : `${p.agents} agents hold ${p.busy}; the last of them asked for work ${duration(Number(p.asked_seconds))} ago`,
  "no-worker": (p) => `no worker or agent for ${p.type} is alive`,
  "agent-away": (p) => `agent ${p.agent_id} is not alive`,
  "children-ended": (p) => `${p.ended} of ${p.total} have ended`,
  "children-open": (p) => `${p.ended} of ${p.total} have ended, ${p.task_id} has not`,
  "callback-due": () => "it is about to be sent",
  "callback-failed": attempts,
  "callback-given-up": (p) => `${attempts(p)}; given up until somebody sends it again`,
  "callback-rests": (p) => `${p.host} keeps failing and rests until then; the last attempt came to ${p.last}`,
  "callback-blocked": (p) => `${p.setting} does not allow ${p.host}; the callback is sent once it does`,
  "callback-unsent": () => "no process sends callbacks: run headgate up, headgate serve or headgate duties",
  "nothing-ahead": () => "nothing is in the way",
  "slots-ahead": (p) =>
    `${ahead(p)}, ${p.slots} at a time${p.each_seconds ? `, about ${duration(Number(p.each_seconds))} each` : ""}`,
  "tokens-ahead": (p) => `${ahead(p)}, ${p.rate} a second`,
  "no-capacity": (p) => `${limit(p)}: its capacity is 0`,
  unmeasured: () => UNMEASURED,
  "limit-unmeasured": (p) => `${limit(p)}: ${UNMEASURED}`,
  "mutex-family": (p) => `mutex ${p.mutex}: held by ${p.task_id} until its children have ended`,
} satisfies Record<ReasonCode, Sentence> as Record<string, Sentence>;

/** Added to any of these where a handler does not stop. */
export const stuck: Sentence = (p) => `the handler of ${p.stuck} does not stop on worker ${p.stuck_worker}`;

const word = (state: string) => states.words[state as State] ?? state;
const PARTICIPLES: Record<string, string> = {
  cancel: "cancelled",
  pause: "paused",
  resume: "resumed",
  retry: "retried",
  resolve: "resolved",
  discard: "discarded",
  prioritize: "prioritized",
  reschedule: "put off",
  replay: "replayed",
};
const orList = (allowed: unknown) =>
  new Intl.ListFormat("en", { type: "disjunction" }).format(String(allowed).split(",").map(word));
const near = (p: Params) => (p.near ? `; did you mean ${p.near}?` : "");
/** A task by its number, or, where many are told of together, any of them. */
const task = (p: Params) => (p.task_id === undefined ? "the task" : `task ${p.task_id}`);

export const refusals = {
  "wrong-state": (p) =>
    `${task(p)} is ${word(String(p.status))}; only ${orList(p.allowed)} tasks can be ${PARTICIPLES[String(p.action)] ?? p.action}`,
  "event-not-possible": (p) => `${p.event} cannot happen to ${task(p)}, which is ${word(String(p.status))}`,
  "task-ended": (p) => `${task(p)} is ${word(String(p.status))}, which is final`,
  "unique-key-held": (p) =>
    p.task_id === undefined ? "its unique key is held" : `its unique key is held by ${task(p)}`,
  "unique-key-busy": (p) => `the unique key ${p.unique_key} changes hands too fast: try again`,
  "changed-meanwhile": (p) => `${task(p)} was changed by somebody else just now: look again`,
  "no-more-children": (p) => `${task(p)} takes no more children: those it has are being cancelled`,
  "parent-ended": (p) => `${task(p)} has ended and takes no children`,
  "stale-execution": (p) => `the execution does not own ${task(p)} any more`,
  "other-agents-task": (p) => `${task(p)} is not agent ${p.agent_id}'s`,
  "start-not-confirmed": (p) => `${task(p)} is scheduling: its start has not been confirmed`,
  "start-held-back": (p) => `${task(p)} may not start now, ${p.reason}: it is back in its queue`,
  "cancel-not-asked": (p) => `nobody asked for ${task(p)} to be cancelled`,
  "pause-not-asked": (p) => `nobody asked for ${task(p)} to be paused`,
  "worker-lost": (p) => `worker ${p.worker_id} is unknown or was declared lost`,
  "no-callback-owed": (p) => `${task(p)} owes nobody a callback`,
  "callback-removed": (p) => `type ${p.type} has no ${p.kind} callback any more`,
  "callback-of-cancelled": (p) => `${task(p)} is cancelled: nobody is told that it succeeded`,
  "schedule-overlaps": (p) => `schedule ${p.schedule_id} is not to overlap: ${p.busy}`,
  "type-just-edited": (p) => `task type ${p.type} was edited just now: try again`,
  "lane-in-use": (p) =>
    `lane ${p.lane} has ${p.more ? "more than " : ""}${p.open} open tasks: wait for them to end, or cancel them`,
  "resource-in-use": (p) => `resource ${p.resource} is used by task type ${p.types}: change that first`,
  "server-without-keys": () => "this server has no keys: there is nothing to sign in with",
  "session-not-a-key": () => "a session does not make another: sign in with a key",
  "no-task": (p) => (p.task_id === undefined ? "there is no such task" : `there is no task ${p.task_id}`),
  "no-parent": (p) => `there is no task ${p.task_id} to be a parent`,
  "task-purged": (p) => `${task(p)}, which this key made, has been purged since`,
  "no-callback": (p) => `${task(p)} has no callback ${p.callback_id}`,
  "no-type": (p) => `there is no task type ${p.type}`,
  "no-lane": (p) => `there is no lane ${p.lane}${p.known ? `; there is ${p.known}` : ""}`,
  "no-resource": (p) => `there is no resource ${p.resource}`,
  "no-rate-limit": (p) => `there is no rate limit ${p.rate_limit}`,
  "no-schedule": (p) => `there is no schedule ${p.schedule_id}`,
  "no-key": (p) => `there is no key ${p.key_id}`,
  "no-listener": (p) => `there is no listener ${p.listener}`,
  "no-such-address": () => "there is nothing at this address",
  "role-needed": (p) => `this needs the role ${p.role}`,
  "other-tenant": () => "the key is another tenant's",
  "shared-by-tenants": () => "all tenants share this: it needs a key of no tenant",
  "unknown-type": (p) => `there is no task type ${p.type}${near(p)}`,
  "key-reused": (p) => `the idempotency key ${p.key} was used for another request`,
  "field-empty": (p) => `${p.field} is empty`,
  "field-too-long": (p) => `${p.field} is longer than ${p.most} characters`,
  "field-not-text": (p) => `${p.field} must be text`,
  "field-not-integer": (p) => `${p.field} must be a whole number`,
  "field-not-seconds": (p) => `${p.field} must be a number of seconds`,
  "field-out-of-range": (p) => `${p.field} is out of range`,
  "field-not-json": (p) => `${p.field} is not JSON: ${p.error}`,
  "field-too-large": (p) => `${p.field} is ${p.size} bytes long, ${p.most} at most`,
  "field-too-deep": (p) => `${p.field} is nested deeper than ${p.most}`,
  "time-zone-needed": (p) => `${p.field} needs a time zone`,
  "remark-needed": () => "a remark is needed",
  "bad-capacity": (p) => `a capacity is a whole number from 0 to ${p.most}`,
  "bad-rate": (p) => `a rate limit needs a rate above 0, ${p.most} at most, and a burst of at least 1`,
  "rate-limit-name": () => "a rate limit is named lane:NAME, type:CODE or key:NAME",
  "pause-scope": () => "what to pause is all, lane:NAME, type:CODE, tenant:ID or key:NAME",
  "pause-end-past": () => "the end of a pause must lie ahead",
  "bad-cron": (p) => `${p.expression} is no cron expression: ${p.error}`,
  "cron-never-fires": (p) => `${p.expression} never fires: there is no such day`,
  "unknown-time-zone": (p) => `there is no time zone ${p.zone}${near(p)}`,
} satisfies Record<RefusalCode, Sentence> as Record<string, Sentence>;

/** What a problem is, by the last part of its `type`. */
export const problems: Record<string, string> = {
  error: "Something went wrong",
  refused: "Not possible now",
  "stale-execution": "Not possible now",
  paused: "Not possible now",
  "worker-lost": "Not possible now",
  "not-found": "Not found",
  invalid: "This breaks a rule",
  "unknown-type": "This breaks a rule",
  "bad-arguments": "This breaks a rule",
  "key-reused": "This breaks a rule",
  unavailable: "The store did not answer",
  "store-full": "The store's disk is full",
  busy: "The store is busy",
  "bad-request": "The request cannot be read",
  unauthorized: "A key is needed",
  forbidden: "Your key may not do this",
  "method-not-allowed": "The request cannot be read",
  "too-large": "Too large",
  "unsupported-media-type": "The request cannot be read",
  "too-many-requests": "Too many requests",
  "headers-too-large": "Too large",
};

export const ends = {
  error: "an error",
  exhausted: "no retries left",
  fatal: "never retried",
  unknown: "an unknown error, not retried",
  arguments: "its arguments do not fit",
  overdue: "ran too long",
  memory: "too much memory",
  lost: "its worker was lost",
  poison: "lost too often",
  children: "no child succeeded",
  cancelled: "cancelled",
  discarded: "given up by hand",
} satisfies Record<SchemaEndReason, string> as Record<string, string>;

/** What an event says besides its kind. */
export const eventDetails = {
  again: (seconds: number) => (seconds > 0 ? `runs again in ${duration(seconds)}` : "runs again at once"),
  until: (time: string) => `until ${time}`,
  children: (counts: string) => `children: ${counts}`,
  replaces: (value: string) => `replaces ${value}`,
  progress: (done: unknown, total: unknown) => `${done} of ${total}`,
  staleExecution: "its exec_id does not own the task",
  unset: "(none)",
  everything: "everything",
  /** Values by their names. */
  names: {
    lane: "lane",
    type: "type",
    tenant: "tenant",
    key: "key",
    resource: "resource",
    name: "name",
    worker: "worker",
    listener: "listener",
    task: "task",
    copy: "copy",
    capacity: "capacity",
    limit: "limit",
    role: "role",
    tenant_id: "tenant",
    periodic_task: "schedule",
    status: "status",
    declared_by: "declared by",
    cron_expressions: "cron",
    timezone: "time zone",
    missed: "missed ticks",
    overlap: "overlap",
    log: "log",
    next_tick: "next tick",
    priority: "priority",
    start_time: "start time",
    removed: "removed",
    callback_kind: "callback",
    callback: "callback",
    host: "receiver",
    attempts: "attempts",
    last: "last answer",
    purged: "removed",
  } as Record<string, string>,
};
