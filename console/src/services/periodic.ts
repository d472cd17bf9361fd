import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { answered, api } from "./api";
import { exactly } from "./exact";
import { anything } from "./refresh";
import type {
  SchemaLogMode,
  SchemaMissed,
  SchemaOverlap,
  SchemaPeriodicIn,
  SchemaPeriodicOut,
  SchemaResult,
  SchemaScheduleStatus,
  SchemaScheduleTriggered,
  SchemaTickLogOut,
  SchemaTickOut,
} from "./schema";
import type { Tone } from "./states";

export type Schedule = SchemaPeriodicOut;
export type ScheduleIn = SchemaPeriodicIn;
export type ScheduleStatus = SchemaScheduleStatus;
export type Missed = SchemaMissed;
export type Overlap = SchemaOverlap;
export type LogPolicy = SchemaLogMode;
export type TickLog = SchemaTickLogOut;
export type TickResult = SchemaResult;
export type Tick = SchemaTickOut;
export type Triggered = SchemaScheduleTriggered;

export const STATUS_TONES: Record<ScheduleStatus, Tone> = { new: "calm", online: "good", offline: "past" };
export const RESULT_TONES: Record<TickResult, Tone> = { executing: "live", success: "good", failure: "alarm" };

const PAGE = 100;
const SOONEST_MS = 3_000;

/** A tick that calls an endpoint is no event: a schedule is asked again when its next tick was foretold. */
function nextLook(schedules: Schedule[]): number | false {
  const due = schedules.flatMap((each) => (each.next_tick ? [Date.parse(each.next_tick)] : []));
  return due.length === 0 ? false : Math.max(Math.min(...due) - Date.now() + 1_000, SOONEST_MS);
}

/** Schedules, newest first. */
export const schedulesQuery = (status: ScheduleStatus | undefined, type: string | undefined) =>
  infiniteQueryOptions({
    queryKey: ["periodic", { status, type }],
    queryFn: ({ signal, pageParam }) => {
      const query = {
        limit: PAGE,
        ...(status ? { status } : {}),
        ...(type ? { type } : {}),
        ...(pageParam === null ? {} : { cursor: pageParam }),
      };
      return answered(api.GET("/api/periodic-tasks", { params: { query }, signal }));
    },
    initialPageParam: null as number | null,
    getNextPageParam: (last) => last.next_cursor,
    refetchInterval: ({ state }) => nextLook((state.data?.pages ?? []).flatMap((page) => page.items)),
    meta: { hears: anything, everyMs: 1_500 },
  });

const path = (id: number) => ({ path: { periodic_id: id } });

export const scheduleQuery = (id: number) =>
  queryOptions({
    queryKey: ["periodic", id],
    queryFn: ({ signal }) => answered(api.GET("/api/periodic-tasks/{periodic_id}", { params: path(id), signal })),
    refetchInterval: ({ state }) => nextLook(state.data ? [state.data] : []),
    meta: { hears: anything, everyMs: 1_500 },
  });

/** When its next ticks come, or would; asked anew with each tick. */
export const ticksQuery = (schedule: Schedule, count: number) =>
  queryOptions({
    queryKey: ["periodic", schedule.id, "ticks", schedule.cron_expressions, schedule.timezone, schedule.next_tick],
    queryFn: async ({ signal }): Promise<Tick[]> => {
      const params = { ...path(schedule.id), query: { count } };
      return (await answered(api.GET("/api/periodic-tasks/{periodic_id}/preview", { params, signal }))).items;
    },
  });

/** When a schedule that is not saved yet would fire. */
export const previewQuery = (expression: string, timezone: string, count: number) =>
  queryOptions({
    queryKey: ["periodic", "preview", expression, timezone, count],
    queryFn: async ({ signal }): Promise<Tick[]> => {
      const query = { cron_expressions: expression, timezone, count };
      return (await answered(api.GET("/api/periodic-tasks/preview", { params: { query }, signal }))).items;
    },
    refetchInterval: ({ state }) => {
      const [next] = state.data ?? [];
      return next ? Math.max(Date.parse(next.at) - Date.now() + 500, SOONEST_MS) : false;
    },
  });

/** What became of its ticks, newest first. How one ended is written behind the event: those not ended are asked again. */
export const tickLogQuery = (id: number) =>
  infiniteQueryOptions({
    queryKey: ["periodic", id, "log"],
    queryFn: ({ signal, pageParam }) => {
      const query = { limit: 20, ...(pageParam === null ? {} : { cursor: pageParam }) };
      return answered(api.GET("/api/periodic-tasks/{periodic_id}/logs", { params: { ...path(id), query }, signal }));
    },
    initialPageParam: null as number | null,
    getNextPageParam: (last) => last.next_cursor,
    refetchInterval: ({ state }) =>
      state.data?.pages.some((page) => page.items.some((line) => line.result === "executing")) ? SOONEST_MS : false,
    meta: { hears: anything, everyMs: 1_500 },
  });

/** Make a schedule, or replace the one with this id. */
export function saveSchedule(id: number | null, said: ScheduleIn): Promise<Schedule> {
  const body = { ...said, ext: exactly(said.ext) };
  return id === null
    ? answered(api.POST("/api/periodic-tasks", { body }))
    : answered(api.PUT("/api/periodic-tasks/{periodic_id}", { params: path(id), body }));
}

export function setOnline(id: number, online: boolean): Promise<Schedule> {
  return online
    ? answered(api.POST("/api/periodic-tasks/{periodic_id}/online", { params: path(id) }))
    : answered(api.POST("/api/periodic-tasks/{periodic_id}/offline", { params: path(id) }));
}

/** Do now what a tick would do. */
export function trigger(id: number): Promise<Triggered> {
  return answered(api.POST("/api/periodic-tasks/{periodic_id}/trigger", { params: path(id) }));
}

export function removeSchedule(id: number): Promise<unknown> {
  return answered(api.DELETE("/api/periodic-tasks/{periodic_id}", { params: path(id) }));
}
