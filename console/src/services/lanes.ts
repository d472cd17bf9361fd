import { queryOptions } from "@tanstack/react-query";
import { answered, api } from "./api";
import { anything } from "./refresh";
import type { SchemaLaneOut, SchemaLanesOut } from "./schema";

export type Lane = SchemaLaneOut;
export type Lanes = SchemaLanesOut;

export const lanesQuery = queryOptions({
  queryKey: ["lanes"],
  queryFn: ({ signal }) => answered(api.GET("/api/lanes", { signal })),
  meta: { hears: anything },
});

/** `capacity` null lifts the limit. */
export function setCapacity(lane: string, capacity: number | null): Promise<Lane> {
  return answered(api.PUT("/api/lanes/{name}", { params: { path: { name: lane } }, body: { capacity } }));
}

export function setPaused(lane: string, paused: boolean): Promise<Lane> {
  return answered(api.PUT("/api/lanes/{name}", { params: { path: { name: lane } }, body: { paused } }));
}

/** Hold everything, or let it go on; lanes that are paused themselves stay so. */
export function pauseEverything(paused: boolean): Promise<unknown> {
  return paused
    ? answered(api.POST("/api/queue/pause", { params: { query: { scope: "all" } } }))
    : answered(api.POST("/api/queue/resume", { params: { query: { scope: "all" } } }));
}
