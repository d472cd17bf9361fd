import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { answered, api } from "./api";
import { nextFilled } from "./pages";
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
/** How many tasks one action may be for. */
export const MOST_AT_ONCE = 200;

/** Tasks, newest first, page after page. */
export const tasksQuery = (filter: TaskFilter) =>
  infiniteQueryOptions({
    queryKey: ["tasks", filter],
    queryFn: ({ signal, pageParam }) => page(filter, pageParam, PAGE, signal),
    initialPageParam: null as number | null,
    getNextPageParam: (last) => last.next_cursor,
    meta: { hears: anyTask, everyMs: 1_500 },
  });

/** The first few tasks that a filter finds. */
export const fewTasksQuery = (filter: TaskFilter, limit: number) =>
  queryOptions({
    queryKey: ["tasks", "few", filter, limit],
    queryFn: ({ signal }) => nextFilled(null, (cursor) => page(filter, cursor, limit, signal)),
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

/** Do something to many tasks; with `dryRun` nothing changes, and each says whether it would be refused. */
export async function actOnMany(ids: number[], verb: Verb, words: Words, dryRun: boolean): Promise<Done[]> {
  const done: Done[] = [];
  for (let at = 0; at < ids.length; at += MOST_AT_ONCE) {
    const body = {
      action: verb,
      ids: ids.slice(at, at + MOST_AT_ONCE),
      dry_run: dryRun,
      ...(verb === "cancel" ? { reason: words.reason ?? "" } : {}),
      ...(verb === "resolve" && words.remark ? { remark: words.remark } : {}),
      ...(verb === "prioritize" ? { priority: words.priority ?? null } : {}),
      ...(verb === "reschedule" ? { delay_seconds: words.delaySeconds ?? 0 } : {}),
    };
    done.push(...(await answered(api.POST("/api/tasks/actions", { body }))).items);
  }
  return done;
}

/** How long a task ran, or has been running. */
export function elapsed(task: Task, now: number): number | null {
  if (task.status === "running" && task.started_at) return Math.max(0, (now - Date.parse(task.started_at)) / 1000);
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
