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
  `${p.name}: ${p.running} of ${p.capacity} running${p.others ? `, ${p.others} of other tenants` : ""}`;
const tokens = (p: Params) => `${p.name}: ${p.tokens} of ${p.burst} tokens, ${p.rate} a second`;
const attempts = (p: Params) =>
  `${p.host}: ${p.attempts === 1 ? "1 attempt" : `${p.attempts} attempts`}, last result: ${p.last}`;
const tasks = (count: unknown) => (count === 1 ? "1 task" : `${count} tasks`);
const UNMEASURED = "no similar task has finished lately, so its duration is unknown";

export const reasons = {
  "not-started": (p) => `it is ${states.words[p.status as State] ?? p.status}`,
  "in-broker": (p) => `in the broker queue ${p.queue} since ${p.since}`,
  started: (p) => `it has started and is ${states.words[p.status as State] ?? p.status}`,
  ended: (p) => `${p.status === "dead" ? "it is" : "it has ended:"} ${states.words[p.status as State] ?? p.status}`,
  "time-come": () => "the start time has passed",
  "start-ahead": () => "the start time has not come yet",
  "retry-ahead": () => "failed, waiting for the next retry",
  "not-paused": () => "nothing is paused",
  "task-paused": () => "the task is paused",
  paused: (p) => `${subject(p)} is paused${p.actor ? ` by ${p.actor}` : ""}${p.reason ? `: ${p.reason}` : ""}`,
  "no-limit": (p) => `${p.name}: no limit, ${p.running} running`,
  "has-room": capacity,
  full: capacity,
  "asked-first": (p) =>
    `${capacity(p)}, ${p.ahead === 1 ? "1 running task" : `${p.ahead} running tasks`} asked for it first`,
  holds: (p) => `holds resource ${p.name}`,
  "waits-to-hold": (p) =>
    `waits for resource ${p.name}${p.task_id === null ? "" : `, held by task ${p.task_id}`}${
      p.running === 1 && p.task_id !== null ? "" : ` (${p.running} of ${p.capacity} in use)`
    }${p.ahead ? `, ${p.ahead} ahead of it` : ""}`,
  "mutex-free": (p) => `${p.mutex}: free`,
  "mutex-own": (p) => `${p.mutex}: held by this task`,
  "mutex-held": (p) => `${p.mutex}: held by task ${p.task_id}`,
  "mutex-ahead": (p) => `${p.mutex}: task ${p.task_id} goes first`,
  "has-tokens": tokens,
  "no-tokens": tokens,
  "start-free": (p) => `agent ${p.agent_id}: can start the next task`,
  "start-held": (p) => `agent ${p.agent_id}: one start every ${p.seconds} s`,
  served: (p) => `${p.servers === 1 ? "1 worker or agent" : `${p.servers} workers or agents`} for ${p.type}`,
  "workers-busy": (p) =>
    `${p.busy} of ${p.slots} slots busy on ${p.worker ? `worker ${p.worker}` : `${p.workers} workers`}`,
  "agents-busy": (p) =>
    p.agent
      ? `agent ${p.agent} holds ${tasks(p.busy)} and last asked for work ${duration(Number(p.asked_seconds))} ago`
      : `${p.agents} agents hold ${tasks(p.busy)}; the latest request for work was ${duration(Number(p.asked_seconds))} ago`,
  "no-worker": (p) => `no worker or agent for ${p.type} is running`,
  "agent-away": (p) => `agent ${p.agent_id} is not connected`,
  "children-ended": (p) => `${p.ended} of ${p.total} have ended`,
  "children-open": (p) => `${p.ended} of ${p.total} have ended, task ${p.task_id} has not`,
  "callback-due": () => "it is about to be sent",
  "callback-failed": attempts,
  "callback-given-up": (p) => `${attempts(p)}; given up until someone sends it again`,
  "callback-rests": (p) => `${p.host} keeps failing, so callbacks to it are on hold; last result: ${p.last}`,
  "callback-blocked": (p) => `${p.setting} does not allow ${p.host}; the callback is sent once it does`,
  "callback-unsent": () => "no process sends callbacks: run headgate up, headgate serve or headgate duties",
  "nothing-ahead": () => "nothing is in the way",
  "slots-ahead": (p) =>
    `${ahead(p)}, ${p.slots} at a time${p.each_seconds ? `, about ${duration(Number(p.each_seconds))} each` : ""}`,
  "tokens-ahead": (p) => `${ahead(p)}, ${p.rate} a second`,
  "no-capacity": (p) => `${limit(p)}: its capacity is 0`,
  unmeasured: () => UNMEASURED,
  "limit-unmeasured": (p) => `${limit(p)}: ${UNMEASURED}`,
  "mutex-family": (p) => `mutex ${p.mutex}: held by task ${p.task_id} until its children have ended`,
} satisfies Record<ReasonCode, Sentence> as Record<string, Sentence>;

/** Added to any of these where a handler does not stop. */
export const stuck: Sentence = (p) => `the handler of task ${p.stuck} does not stop on worker ${p.stuck_worker}`;

const word = (state: string) => states.words[state as State] ?? state;
const PARTICIPLES: Record<string, string> = {
  cancel: "cancelled",
  pause: "paused",
  resume: "resumed",
  retry: "retried",
  resolve: "resolved",
  discard: "discarded",
  prioritize: "prioritized",
  reschedule: "rescheduled",
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
  "unique-key-busy": (p) => `the unique key ${p.unique_key} keeps changing owner: try again`,
  "changed-meanwhile": (p) => `${task(p)} was just changed by someone else: read it again`,
  "no-more-children": (p) => `${task(p)} accepts no more children: its children are being cancelled`,
  "parent-ended": (p) => `${task(p)} has ended and accepts no children`,
  "stale-execution": (p) => `the execution does not own ${task(p)} any more`,
  "other-agents-task": (p) => `${task(p)} is not assigned to agent ${p.agent_id}`,
  "start-not-confirmed": (p) => `${task(p)} is scheduling: its start has not been confirmed`,
  "start-held-back": (p) => `${task(p)} cannot start now (${p.reason}) and is back in the queue`,
  "cancel-not-asked": (p) => `no cancellation of ${task(p)} was requested`,
  "pause-not-asked": (p) => `no pause of ${task(p)} was requested`,
  "worker-lost": (p) => `worker ${p.worker_id} is unknown or was declared lost`,
  "already-held": (p) => `resource ${p.resource} is held by this execution in another block: leave that one first`,
  "no-broker": () => "this server has no broker: set HEADGATE_BROKER, or claim tasks over HTTP",
  "no-callback-owed": (p) => `${task(p)} has no callback to send`,
  "callback-removed": (p) => `type ${p.type} has no ${p.kind} callback any more`,
  "callback-of-cancelled": (p) => `${task(p)} is cancelled, so no success callback is sent`,
  "schedule-overlaps": (p) => `schedule ${p.schedule_id} does not allow overlap: ${p.busy}`,
  "type-just-edited": (p) => `task type ${p.type} was just edited: try again`,
  "lane-in-use": (p) =>
    p.open === 1 && !p.more
      ? `lane ${p.lane} has 1 open task: wait for it to end, or cancel it`
      : `lane ${p.lane} has ${p.more ? "more than " : ""}${p.open} open tasks: wait for them to end, or cancel them`,
  "resource-in-use": (p) => `resource ${p.resource} is used by task type ${p.types}: change that first`,
  "resource-held": (p) =>
    `resource ${p.resource} is held or waited for by ${task(p)}: wait for it to end, or cancel it`,
  "too-many-streams": (p) =>
    `tenant ${p.tenant_id} has ${p.most} combinations of lane, type, category, rate key and agent, the maximum: use fewer lanes and rate keys`,
  "too-many-resources": (p) =>
    `handlers of tenant ${p.tenant_id} have named ${p.most} resources, the maximum: use fewer`,
  "server-without-keys": () => "this server has no keys: there is nothing to sign in with",
  "session-not-a-key": () => "a session cannot create another session: sign in with a key",
  "no-task": (p) => (p.task_id === undefined ? "there is no such task" : `there is no task ${p.task_id}`),
  "no-parent": (p) => `there is no parent task ${p.task_id}`,
  "task-purged": (p) => `${task(p)}, created with this idempotency key, has been purged`,
  "no-callback": (p) => `${task(p)} has no callback ${p.callback_id}`,
  "no-type": (p) => `there is no task type ${p.type}`,
  "no-lane": (p) => `there is no lane ${p.lane}${p.known ? `; known lanes: ${p.known}` : ""}`,
  "no-resource": (p) => `there is no resource ${p.resource}`,
  "no-rate-limit": (p) => `there is no rate limit ${p.rate_limit}`,
  "no-schedule": (p) => `there is no schedule ${p.schedule_id}`,
  "no-key": (p) => `there is no key ${p.key_id}`,
  "no-listener": (p) => `there is no listener ${p.listener}`,
  "no-such-address": () => "there is nothing at this address",
  "role-needed": (p) => `this needs the role ${p.role}`,
  "other-tenant": () => "the key belongs to another tenant",
  "shared-by-tenants": () => "all tenants share this: use a key without a tenant",
  "unknown-type": (p) => `there is no task type ${p.type}${near(p)}`,
  "key-reused": (p) => `the idempotency key ${p.key} was used for another request`,
  "field-empty": (p) => `${p.field} is empty`,
  "field-too-long": (p) => `${p.field} is longer than ${p.most} characters`,
  "field-not-text": (p) => `${p.field} must be text`,
  "field-not-integer": (p) => `${p.field} must be a whole number`,
  "field-not-seconds": (p) => `${p.field} must be a number of seconds`,
  "field-out-of-range": (p) => `${p.field} is out of range`,
  "field-not-json": (p) => `${p.field} is not JSON: ${p.error}`,
  "field-too-large": (p) => `${p.field} is ${p.size} bytes long; the maximum is ${p.most}`,
  "field-too-deep": (p) => `${p.field} is nested more than ${p.most} levels deep`,
  "time-zone-needed": (p) => `${p.field} needs a time zone`,
  "remark-needed": () => "a remark is needed",
  "bad-capacity": (p) => `a capacity must be a whole number from 0 to ${p.most}`,
  "bad-rate": (p) => `a rate limit needs a rate above 0, at most ${p.most}, and a burst of at least 1`,
  "rate-limit-name": () => "a rate limit is named lane:NAME, type:CODE or key:NAME",
  "pause-scope": () => "name what to pause: all, lane:NAME, type:CODE, tenant:ID or key:NAME",
  "pause-end-past": () => "the end of a pause must be in the future",
  "bad-cron": (p) => `${p.expression} is not a cron expression: ${p.error}`,
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
  invalid: "Invalid input",
  "unknown-type": "Invalid input",
  "bad-arguments": "Invalid input",
  "key-reused": "Invalid input",
  unavailable: "Not available now",
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
  "too-slow": "Too slow",
};

export const ends = {
  error: "an error",
  exhausted: "no retries left",
  fatal: "never retried",
  unknown: "an unknown error, not retried",
  arguments: "its arguments do not match the handler",
  overdue: "ran too long",
  memory: "it used too much memory",
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
    status: "state",
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
