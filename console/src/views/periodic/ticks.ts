import type { Cron } from "./cron";

const DAY_MS = 86_400_000;
const MARGIN_MS = 26 * 3_600_000;
const MOST_DAYS = 366 * 9; // a 29 February may be eight years away

/** The next ticks behind `after`, in milliseconds of UTC; fewer, if there are no more for years. */
export function nextTicks(cron: Cron, zone: string, after: number, count: number): number[] {
  const offset = offsets(zone);
  const ticks: number[] = [];
  const today = Math.floor((after + offset(after)) / DAY_MS) * DAY_MS;
  for (let day = 0, idle = 0; idle < MOST_DAYS && ticks.length < count; day += 1, idle += 1) {
    const midnight = today + day * DAY_MS;
    if (!cron.fits(new Date(midnight))) continue;
    idle = 0;
    for (const tick of ticksOf(cron, midnight, offset, after)) {
      if (ticks.at(-1) !== tick && ticks.push(tick) === count) break;
    }
  }
  return ticks;
}

/** How far a zone's clock is ahead of UTC at a moment, in milliseconds. */
type Offset = (moment: number) => number;

/** The ticks of one day on the clock, in order. */
function* ticksOf(cron: Cron, midnight: number, offset: Offset, after: number): Iterable<number> {
  const [before, behind] = [offset(midnight - MARGIN_MS), offset(midnight + DAY_MS + MARGIN_MS)];
  if (before === behind) {
    for (const wall of walls(cron, midnight)) if (wall - before > after) yield wall - before;
    return;
  }
  const change = changeBetween(midnight - MARGIN_MS, midnight + DAY_MS + MARGIN_MS, offset);
  const found = new Set<number>();
  for (const wall of walls(cron, midnight)) {
    const moments = [
      ...(wall - before < change ? [wall - before] : []),
      ...(wall - behind >= change ? [wall - behind] : []),
    ].sort((a, b) => a - b);
    if (!cron.timesOfDay) for (const moment of moments) found.add(moment);
    else found.add(moments[0] ?? change);
  }
  yield* [...found].filter((moment) => moment > after).sort((a, b) => a - b);
}

/** The times of a day that fit, as if the clock were UTC's. */
function* walls(cron: Cron, midnight: number): Iterable<number> {
  for (const hour of cron.hours) {
    for (const minute of cron.minutes) {
      for (const second of cron.seconds) yield midnight + ((hour * 60 + minute) * 60 + second) * 1000;
    }
  }
}

/** When the clock is set between two moments at which it differs; to the second. */
function changeBetween(begin: number, end: number, offset: Offset): number {
  let [low, high] = [begin, end];
  while (high - low > 1000) {
    const middle = low + Math.floor((high - low) / 2000) * 1000;
    if (offset(middle) === offset(begin)) low = middle;
    else high = middle;
  }
  return high;
}

function offsets(zone: string): Offset {
  const format = new Intl.DateTimeFormat("en-US", {
    timeZone: zone,
    hourCycle: "h23",
    year: "numeric",
    month: "numeric",
    day: "numeric",
    hour: "numeric",
    minute: "numeric",
    second: "numeric",
  });
  return (moment) => {
    const part = Object.fromEntries(format.formatToParts(moment).map(({ type, value }) => [type, Number(value)]));
    const { year = 0, month = 1, day = 0, hour = 0, minute = 0, second = 0 } = part;
    return Date.UTC(year, month - 1, day, hour, minute, second) - Math.floor(moment / 1000) * 1000;
  };
}

/** Whether the browser knows a zone by this name. */
export function isZone(zone: string): boolean {
  try {
    return zone !== "" && Boolean(new Intl.DateTimeFormat("en", { timeZone: zone }));
  } catch {
    return false;
  }
}

/** Every zone by its name, UTC first. */
export function zones(): string[] {
  return ["UTC", ...Intl.supportedValuesOf("timeZone").filter((zone) => zone !== "UTC")];
}

/** "Mon 2026-11-16 02:30:00", as the zone's clock shows it. */
export function onTheClock(moment: number, zone: string, locale: string): string {
  const day = new Intl.DateTimeFormat(locale, { timeZone: zone, weekday: "short" }).format(moment);
  const date = new Intl.DateTimeFormat("sv-SE", { timeZone: zone, dateStyle: "short", timeStyle: "medium" });
  return `${day} ${date.format(moment)}`;
}
