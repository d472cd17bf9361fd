import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback, useMemo } from "react";
import { useFigures } from "@/app/live";
import { Chart, type Line } from "@/parts/Chart";
import { amount, duration, figure } from "@/parts/formats";
import { ProblemNote } from "@/parts/ProblemNote";
import { grown, oldestOf, type Point, type Series, seriesQuery } from "@/services/figures";
import type { Figure } from "@/services/live";
import { useSpoken } from "@/texts";
import classes from "./Charts.module.css";

const COARSE_SECONDS = 300;
const LEAST_SECONDS = 180;

/** How it goes: six charts that move as points come in. */
export function Charts({ seconds }: { seconds: number }) {
  const { t, language } = useSpoken();
  const charts = t.overview.charts;
  const series = useSeries(seconds);
  const drawn = useMemo(() => (series.data ? columns(series.data) : undefined), [series.data]);
  if (series.error) return <ProblemNote error={series.error} retry={() => series.refetch()} />;

  const step = series.data?.step ?? 10;
  const to = drawn?.at.at(-1) ?? Date.now() / 1000;
  const common = { at: drawn?.at ?? [], from: Math.max(to - seconds, began(drawn, to)), to };
  const per = (values: (number | null)[] | undefined, of: number) =>
    (values ?? []).map((value) => (value === null ? null : (value * of) / step));
  const rate = (value: number) => charts.perSecond(figure(value));
  const minute = (value: number) => charts.perMinute(figure(value));
  const count = (value: number) => amount(Math.round(value), language);
  const whole = (value: number) => (Number.isInteger(value) ? count(value) : "");
  const line = (label: string, tone: Line["tone"], values: (number | null)[] | undefined, look = {}): Line => ({
    label,
    tone,
    values: values ?? [],
    ...look,
  });

  return (
    <div className={classes.charts}>
      <Chart
        {...common}
        title={charts.throughput}
        format={rate}
        axis={figure}
        lines={[
          line(charts.succeeded, "good", per(drawn?.succeeded, 1), { filled: true }),
          line(charts.submitted, "calm", per(drawn?.submitted, 1), { dashed: true }),
        ]}
      />
      <Chart
        {...common}
        title={charts.failures}
        format={minute}
        axis={figure}
        lines={[
          line(charts.failed, "alarm", per(drawn?.failed, 60), { filled: true }),
          line(charts.retried, "warn", per(drawn?.retried, 60)),
        ]}
      />
      <Chart
        {...common}
        title={charts.latency}
        format={duration}
        lines={[
          line(charts.waitHigh, "live", drawn?.wait_p95, { filled: true }),
          line(charts.waitMedian, "calm", drawn?.wait_p50),
          line(charts.runHigh, "held", drawn?.run_p95, { dashed: true }),
        ]}
      />
      <Chart
        {...common}
        title={charts.depth}
        format={count}
        axis={whole}
        lines={[
          line(charts.queued, "live", drawn?.waiting, { filled: true, stands: true }),
          line(charts.later, "calm", drawn?.later, { dashed: true, stands: true }),
        ]}
      />
      <Chart
        {...common}
        title={charts.age}
        format={duration}
        lines={[line(charts.oldest, "warn", drawn?.oldest, { filled: true, stands: true })]}
      />
      <Chart
        {...common}
        title={charts.running}
        format={count}
        axis={whole}
        lines={[line(charts.inProgress, "good", drawn?.running, { filled: true, stands: true })]}
      />
    </div>
  );
}

/** Where a server that is younger than the range begins: its first points are not squeezed into a corner. */
function began(drawn: Columns | undefined, to: number): number {
  const first = drawn?.running.findIndex((value) => value !== null) ?? -1;
  return Math.min(drawn?.at[first] ?? to, to - LEAST_SECONDS);
}

function useSeries(seconds: number) {
  const client = useQueryClient();
  const query = seriesQuery(seconds);
  const key = query.queryKey;
  useFigures(
    useCallback(
      (point: Figure) => {
        const known = client.getQueryData<Series>(["series", seconds]);
        if (!known) return;
        if (known.step < COARSE_SECONDS) client.setQueryData<Series>(["series", seconds], grown(known, point, seconds));
        else if ((Date.parse(point.at) / 1000 + 10) % COARSE_SECONDS === 0) {
          void client.invalidateQueries({ queryKey: ["series", seconds] });
        }
      },
      [client, seconds],
    ),
  );
  return useQuery({ ...query, queryKey: key });
}

type Columns = { at: number[] } & Record<Exclude<keyof Point, "at">, (number | null)[]>;

/** The points as uPlot wants them: a list for each line. */
function columns({ items }: Series): Columns {
  const of = (name: Exclude<keyof Point, "at">) => items.map((point) => point[name]);
  return {
    at: items.map((point) => Date.parse(point.at) / 1000),
    submitted: of("submitted"),
    started: of("started"),
    succeeded: of("succeeded"),
    failed: of("failed"),
    retried: of("retried"),
    cancelled: of("cancelled"),
    wait_p50: of("wait_p50"),
    wait_p95: of("wait_p95"),
    run_p50: of("run_p50"),
    run_p95: of("run_p95"),
    waiting: of("waiting"),
    later: of("later"),
    running: of("running"),
    dead: of("dead"),
    oldest: items.map(oldestOf),
  };
}
