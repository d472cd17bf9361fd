import { queryOptions } from "@tanstack/react-query";
import { answered, api } from "./api";
import { anyTask } from "./refresh";
import type { SchemaCountOut, SchemaPointOut, SchemaSeriesOut, SchemaStatsOut } from "./schema";

export type Point = SchemaPointOut;
export type Series = SchemaSeriesOut;
export type Count = SchemaCountOut;
export type TypeStats = SchemaStatsOut;

/** The charts' points; new ones come with the events. */
export const seriesQuery = (seconds: number) =>
  queryOptions({
    queryKey: ["series", seconds],
    queryFn: ({ signal }) => answered(api.GET("/api/series", { params: { query: { seconds } }, signal })),
  });

export const countsQuery = queryOptions({
  queryKey: ["counts"],
  queryFn: async ({ signal }) => (await answered(api.GET("/api/counts", { signal }))).items,
  meta: { hears: anyTask, everyMs: 2_000 },
});

/** How the tasks of each type did. */
export const typeStatsQuery = (seconds: number) =>
  queryOptions({
    queryKey: ["stats", seconds],
    queryFn: async ({ signal }) =>
      (await answered(api.GET("/api/stats", { params: { query: { seconds } }, signal }))).items,
    meta: { hears: (event) => event.from === "running" || event.from === "waiting", everyMs: 10_000 },
  });

/** How old the oldest was that waited: 0 where nothing did, null where nobody looked. */
export function oldestOf({ oldest, waiting }: Point): number | null {
  return waiting === 0 ? 0 : oldest;
}

/** A series with one more point: what is older than `seconds` falls out. */
export function grown(series: Series, point: Point, seconds: number): Series {
  const last = series.items.at(-1);
  if (last && last.at >= point.at) return series;
  const begin = Date.parse(point.at) - seconds * 1000;
  return { ...series, items: [...series.items.filter((each) => Date.parse(each.at) >= begin), point] };
}
