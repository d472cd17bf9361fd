import { queryOptions } from "@tanstack/react-query";
import { answered, api } from "./api";
import { anything } from "./refresh";
import type { SchemaCompensationOut, SchemaCompensationTriggered } from "./schema";

export type Compensation = SchemaCompensationOut;
export type Found = SchemaCompensationTriggered;

const A_MOMENT_MS = 500;
const SOONEST_MS = 1_000;

/** How the search for lost starts stands. A poll is no event: it is asked again when the next one was foretold. */
export const compensationQuery = queryOptions({
  queryKey: ["compensation"],
  queryFn: ({ signal }) => answered(api.GET("/api/compensation", { signal })),
  refetchInterval: ({ state }) => {
    const left = state.data?.next_poll_in_seconds;
    return left === null || left === undefined ? false : Math.max(left * 1000 + A_MOMENT_MS, SOONEST_MS);
  },
  meta: { hears: anything, everyMs: 2_000 },
});

/** Look for lost starts now. */
export function lookNow(): Promise<Found> {
  return answered(api.POST("/api/compensation/trigger"));
}
