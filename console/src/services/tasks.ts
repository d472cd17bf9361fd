import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { answered, api } from "./api";
import { anyTask } from "./refresh";
import type {
  paths,
  SchemaAction,
  SchemaDone,
  SchemaEventOut,
  SchemaLogOut,
  SchemaTaskOut,
  SchemaWhyOut,
} from "./schema";
import type { State } from "./states";

export type Task = SchemaTaskOut;
export type TaskEvent = SchemaEventOut;
export type LogLine = SchemaLogOut;
export type Why = SchemaWhyOut;
export type Done = SchemaDone;
export type TaskFilter = Omit<
  NonNullable<paths["/api/tasks"]["get"]["parameters"]["query"]>,
  "cursor" | "limit" | "view"
>;
export type Verb = SchemaAction["action"];

/** What can be done to a task, in the order it is offered. */
export const VERBS: Verb[] = ["cancel", "pause", "resume", "retry", "resolve", "discard", "prioritize", "reschedule"];
export const PAGE = 100;

/** Tasks, newest first, page after page. */
export const tasksQuery = (filter: TaskFilter) =>
  infiniteQueryOptions({
    queryKey: ["tasks", filter],
    queryFn: ({ signal, pageParam }) => page(filter, pageParam, PAGE, signal),
    initialPageParam: null as number | null,
    getNextPageParam: (last) => last.next_cursor,
    meta: { hears: anyTask, everyMs: 1_500 },
  });

export function page(filter: TaskFilter, cursor: number | null, limit: number, signal?: AbortSignal) {
  const query = { ...filter, limit, ...(cursor === null ? {} : { cursor }) };
  return answered(api.GET("/api/tasks", { params: { query }, ...(signal ? { signal } : {}) }));
}

const path = (id: string) => ({ path: { task_id: Number(id) } });
const ofTask = (id: string) => (event: { task_id: number | null }) => String(event.task_id) === id;

export const taskQuery = (id: string) =>
  queryOptions({
    queryKey: ["task", id],
    queryFn: ({ signal }) => answered(api.GET("/api/tasks/{task_id}", { params: path(id), signal })),
    meta: { hears: ofTask(id), everyMs: 300 },
  });

export const taskEventsQuery = (id: string) =>
  queryOptions({
    queryKey: ["task", id, "events"],
    queryFn: async ({ signal }) =>
      (
        await answered(
          api.GET("/api/tasks/{task_id}/events", { params: { ...path(id), query: { progress: false } }, signal }),
        )
      ).items,
    meta: { hears: (event) => ofTask(id)(event) && event.kind !== "progress", everyMs: 500 },
  });

export const attemptsQuery = (id: string) =>
  queryOptions({
    queryKey: ["task", id, "attempts"],
    queryFn: async ({ signal }) =>
      (await answered(api.GET("/api/tasks/{task_id}/attempts", { params: path(id), signal }))).items,
    meta: { hears: (event) => ofTask(id)(event) && event.kind !== "progress", everyMs: 500 },
  });

/** Anything may open or shut a gate. */
export const whyQuery = (id: string) =>
  queryOptions({
    queryKey: ["task", id, "why"],
    queryFn: ({ signal }) => answered(api.GET("/api/tasks/{task_id}/why", { params: path(id), signal })),
    meta: { hears: () => true, everyMs: 1_000 },
  });

export const childrenQuery = (id: string) =>
  queryOptions({
    queryKey: ["task", id, "children"],
    queryFn: ({ signal }) =>
      answered(api.GET("/api/tasks/{task_id}/children", { params: { ...path(id), query: { limit: 200 } }, signal })),
    meta: { hears: anyTask, everyMs: 1_000 },
  });

/** How many children a task has in each state, over all of them. */
export const familyQuery = (id: string) =>
  queryOptions({
    queryKey: ["task", id, "family"],
    queryFn: async ({ signal }) =>
      (await answered(api.GET("/api/tasks/{task_id}", { params: path(id), signal }))).children ?? null,
    meta: { hears: anyTask, everyMs: 2_000 },
  });

/** A task's log from behind the line `after` on; while it may write more, this waits for the next line. */
export async function logLines(id: string, after: number, wait: number, signal: AbortSignal): Promise<LogLine[]> {
  const params = { ...path(id), query: { after, limit: 200, wait } };
  return (await answered(api.GET("/api/tasks/{task_id}/log", { params, signal }))).items;
}

/** What goes with an action. */
export interface Words {
  /** Of a cancel. */
  reason?: string;
  /** Of a resolve; it must be there. */
  remark?: string;
  /** Of a prioritize; none: to the head of its lane. */
  priority?: number | null;
  /** Of a reschedule, from now on; it must be there. */
  delaySeconds?: number;
}

/** Do something to 200 tasks at most; with `dryRun` nothing changes, and each says whether it would be refused. */
export async function actOn(ids: number[], verb: Verb, words: Words, dryRun: boolean): Promise<Done[]> {
  const body = {
    action: verb,
    ids,
    dry_run: dryRun,
    ...(verb === "cancel" ? { reason: words.reason ?? "" } : {}),
    ...(verb === "resolve" && words.remark ? { remark: words.remark } : {}),
    ...(verb === "prioritize" ? { priority: words.priority ?? null } : {}),
    ...(verb === "reschedule" ? { delay_seconds: words.delaySeconds ?? 0 } : {}),
  };
  return (await answered(api.POST("/api/tasks/actions", { body }))).items;
}

/** How long a task ran, or has been running; a parent with its children. */
export function elapsed(task: Task, now: number): number | null {
  if ((task.status === "running" || task.status === "waiting") && task.started_at)
    return Math.max(0, (now - Date.parse(task.started_at)) / 1000);
  return task.exec_time;
}

/** What can be done to a task in a state; the server has the last word. */
export function verbsFor(status: State): Verb[] {
  switch (status) {
    case "pending":
    case "queued":
    case "blocked":
      return ["prioritize", "reschedule", "pause", "cancel"];
    case "retrying":
      return ["retry", "prioritize", "reschedule", "pause", "cancel"];
    case "scheduling":
    case "waiting":
      return ["cancel"];
    case "notifying":
      return ["resolve", "cancel"];
    case "running":
      return ["pause", "cancel"];
    case "paused":
      return ["resume", "prioritize", "cancel"];
    case "dead":
      return ["retry", "resolve", "discard"];
    case "succeeded":
    case "partial":
    case "failed":
    case "resolved":
    case "cancelled":
      return ["retry"];
  }
}
