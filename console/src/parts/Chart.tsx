import "uplot/dist/uPlot.min.css";
import { useComputedColorScheme } from "@mantine/core";
import { useElementSize, useMergedRef } from "@mantine/hooks";
import { useEffect, useRef, useState } from "react";
import uPlot from "uplot";
import type { Tone } from "@/services/states";
import { useSpoken } from "@/texts";
import classes from "./Chart.module.css";
import { clock } from "./formats";

export interface Line {
  label: string;
  tone: Tone;
  values: (number | null)[];
  /** Filled down to the axis. */
  filled?: boolean;
  dashed?: boolean;
  /** How things stood when they were measured: it stays so until they are measured again. Else, no value is a gap. */
  stands?: boolean;
}

const MINUTES = [1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440].map((minutes) => minutes * 60);

interface Props {
  title: string;
  /** Seconds since 1970. */
  at: number[];
  lines: Line[];
  from: number;
  to: number;
  /** A value, beside its line's name. */
  format: (value: number) => string;
  /** A value at the axis, where there is little room. */
  axis?: (value: number) => string;
  height?: number;
}

/** A chart over time. All charts on a page share the place of the pointer. */
export function Chart({ title, at, lines, from, to, format, axis = format, height = 96 }: Props) {
  const { t, language } = useSpoken();
  const empty = lines.every((line) => line.values.every((value) => value === null));
  const scheme = useComputedColorScheme("light");
  const frame = useRef<HTMLDivElement>(null);
  const { ref, width } = useElementSize<HTMLDivElement>();
  const plot = useRef<uPlot | null>(null);
  const [under, setUnder] = useState<number | null>(null);
  const shape = JSON.stringify([lines.map(({ values: _, ...look }) => look), scheme, language, height, width > 0]);
  const drawn = { axis: (value: number) => (empty ? "" : value === 0 ? "0" : axis(value)), from, to };
  const latest = useRef(drawn);
  latest.current = drawn;

  // biome-ignore lint/correctness/useExhaustiveDependencies: `shape` stands for what the plot is made of
  useEffect(() => {
    if (!frame.current || width === 0) return;
    const made = new uPlot(
      options(lines, { width, height, latest, setUnder, hour: (seconds) => clock(new Date(seconds * 1000), language) }),
      data(at, lines),
      frame.current,
    );
    plot.current = made;
    return () => {
      made.destroy();
      plot.current = null;
    };
  }, [shape]);
  useEffect(() => plot.current?.setSize({ width, height }), [width, height]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: a new range is drawn too
  useEffect(() => plot.current?.setData(data(at, lines)), [at, lines, from, to]);

  return (
    <figure className={classes.chart}>
      <h2 className={classes.title}>{title}</h2>
      <figcaption className={classes.legend}>
        {lines.map((line) => (
          <span key={line.label} data-tone={line.tone} data-dashed={line.dashed || undefined}>
            {line.label} <b>{shown(line, under, format)}</b>
          </span>
        ))}
        {under === null ? null : (
          <time className={classes.time}>{clock(new Date((at[under] ?? 0) * 1000), language)}</time>
        )}
      </figcaption>
      <div role="img" aria-label={title} ref={useMergedRef(ref, frame)} className={classes.frame}>
        {empty ? <p className={classes.empty}>{t.common.noData}</p> : null}
      </div>
    </figure>
  );
}

/** What a line shows: under the pointer, or last. */
function shown({ values, stands }: Line, under: number | null, format: (value: number) => string): string {
  const last = stands ? values.findLast((each) => each !== null) : values.at(-1);
  const value = under === null ? last : values[under];
  return value === null || value === undefined ? "–" : format(value);
}

function data(at: number[], lines: Line[]): uPlot.AlignedData {
  return [at, ...lines.map((line) => line.values)] as uPlot.AlignedData;
}

interface Look {
  width: number;
  height: number;
  latest: { current: { axis: (value: number) => string; from: number; to: number } };
  setUnder: (index: number | null) => void;
  hour: (seconds: number) => string;
}

function options(lines: Line[], { width, height, latest, setUnder, hour }: Look): uPlot.Options {
  const ink = () => color("--mantine-color-dimmed");
  const grid = { stroke: () => color("--line"), width: 1 };
  const font = `11px ${color("--mantine-font-family")}`;
  return {
    width,
    height,
    padding: [6, 16, 0, 0],
    legend: { show: false },
    cursor: { sync: { key: "headgate" }, y: false, points: { size: 5 }, drag: { x: false, y: false } },
    scales: {
      x: { time: true, range: () => [latest.current.from, latest.current.to] },
      y: { range: (_plot, _low, high) => [0, high > 0 ? high * 1.15 : 1] },
    },
    axes: [
      {
        stroke: ink,
        grid: { show: false },
        ticks: { show: false },
        font,
        size: 20,
        space: 70,
        incrs: MINUTES,
        values: (_plot, splits) => splits.map((seconds) => hour(seconds).slice(0, 5)),
      },
      {
        stroke: ink,
        grid,
        ticks: { show: false },
        font,
        size: 40,
        space: 30,
        values: (_plot, splits) => splits.map((value) => latest.current.axis(value)),
      },
    ],
    series: [{}, ...lines.map(series)],
    hooks: { setCursor: [(made) => setUnder(made.cursor.idx ?? null)] },
  };
}

/** The points with nothing on either side: no line would show them. */
function alone(plot: uPlot, at: number): number[] {
  const values = plot.data[at] ?? [];
  const there = (index: number) => values[index] !== null && values[index] !== undefined;
  return [...values.keys()].filter((index) => there(index) && !there(index - 1) && !there(index + 1));
}

function series(line: Line): uPlot.Series {
  const stroke = () => color(`--tone-${line.tone}`);
  return {
    label: line.label,
    stroke,
    width: 1.5,
    points: line.stands ? { show: false } : { show: true, size: 3, width: 0, fill: stroke, filter: alone },
    spanGaps: line.stands ?? false,
    ...(line.filled ? { fill: () => `color-mix(in srgb, ${stroke()} 14%, transparent)` } : {}),
    ...(line.dashed ? { dash: [4, 3] } : {}),
  };
}

function color(variable: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(variable).trim();
}
