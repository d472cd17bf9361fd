import { queryOptions } from "@tanstack/react-query";
import { answered, api } from "./api";
import { nextEnd } from "./pauses";
import { anything } from "./refresh";
import type { SchemaLaneOut, SchemaLanesOut } from "./schema";

export type Lane = SchemaLaneOut;
export type Lanes = SchemaLanesOut;

export const lanesQuery = queryOptions({
  queryKey: ["lanes"],
  queryFn: ({ signal }) => answered(api.GET("/api/lanes", { signal })),
  refetchInterval: ({ state }) =>
    nextEnd(
      (state.data?.items ?? []).map((lane) => lane.pause),
      Date.now(),
    ),
  meta: { hears: anything },
});

/** `capacity` null lifts the limit. */
export function setCapacity(lane: string, capacity: number | null): Promise<Lane> {
  return answered(api.PUT("/api/lanes/{name}", { params: { path: { name: lane } }, body: { capacity } }));
}
