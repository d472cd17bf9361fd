/**
 * A cron expression as the server reads it (`headgate.core.cron`): five fields, or six with seconds in front.
 *
 * The server's word is the last: this lets a form say what an expression means while it is typed. A test holds the two
 * against each other.
 */
export interface Cron {
  seconds: number[];
  minutes: number[];
  hours: number[];
  fits: (date: Date) => boolean;
  /** It names its hours and minutes: a time that the clock jumps over is made good, one that comes twice is not repeated. */
  timesOfDay: boolean;
}

export type Field = "second" | "minute" | "hour" | "day" | "month" | "weekday";
export type CronProblem = { field: Field } | { fields: number };

const NICKNAMES: Record<string, string> = {
  "@yearly": "0 0 1 1 *",
  "@annually": "0 0 1 1 *",
  "@monthly": "0 0 1 * *",
  "@weekly": "0 0 * * 0",
  "@daily": "0 0 * * *",
  "@midnight": "0 0 * * *",
  "@hourly": "0 * * * *",
};
const RANGES: Record<Field, [number, number]> = {
  second: [0, 59],
  minute: [0, 59],
  hour: [0, 23],
  day: [1, 31],
  month: [1, 12],
  weekday: [0, 7],
};
const MONTHS = "JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC".split(" ");
const DAYS = "SUN MON TUE WED THU FRI SAT".split(" ");
const LAST = -1;
const LAST_WEEKDAY = -2;

class Bad extends Error {
  constructor(readonly field: Field) {
    super(field);
  }
}

/** Read an expression; a problem says which field cannot be read, or that there are not five or six. */
export function readCron(expression: string): Cron | { problem: CronProblem } {
  const said = expression.trim();
  const text = (NICKNAMES[said.toLowerCase()] ?? said).replace(/\b(\w+)-\1\/\d+/g, "$1").toUpperCase();
  const parts = text.split(/\s+/).filter(Boolean);
  if (parts.length !== 5 && parts.length !== 6) return { problem: { fields: parts.length } };
  const six = parts.length === 5 ? ["0", ...parts] : parts;
  const [second = "", minute = "", hour = "", day = "", month = "", weekday = ""] = six;
  try {
    const days = read("day", day);
    const months = new Set(read("month", month).map(([value]) => value));
    const weekdays = read("weekday", weekday);
    const both = day.startsWith("*") || weekday.startsWith("*");
    const fits = (date: Date) => {
      if (!months.has(date.getUTCMonth() + 1)) return false;
      const byDay = days.some(([value]) => dayFits(value, date));
      const byWeekday = weekdays.some(([value, nth]) => weekdayFits(value, nth, date));
      return both ? byDay && byWeekday : byDay || byWeekday;
    };
    return {
      seconds: numbers("second", second),
      minutes: numbers("minute", minute),
      hours: numbers("hour", hour),
      fits,
      timesOfDay: parts.length === 5 && !minute.startsWith("*") && !hour.startsWith("*"),
    };
  } catch (error) {
    if (error instanceof Bad) return { problem: { field: error.field } };
    throw error;
  }
}

/** A value, and for a weekday which one of the month: the third, the last. */
type Item = [value: number, nth?: number];

function numbers(field: Field, text: string): number[] {
  return [...new Set(read(field, text).map(([value]) => value))].sort((a, b) => a - b);
}

function read(field: Field, text: string): Item[] {
  const [least, most] = RANGES[field];
  if (text === "*") return span(least, most);
  if (text.includes(",")) return text.split(",").flatMap((term) => read(field, term));
  if (field === "weekday" && /^\d+L$/.test(text)) return [[value(field, text.slice(0, -1)), LAST]];
  if (field === "weekday" && text.includes("#")) {
    const [day = "", nth = ""] = split(text, "#");
    if (!/^[1-5]$/.test(nth)) throw new Bad(field);
    return [[value(field, day), Number(nth)]];
  }
  if (text.includes("/")) {
    const [term = "", step = ""] = split(text, "/");
    if (!/^\d+$/.test(step) || Number(step) === 0) throw new Bad(field);
    const items = read(field, term);
    const [only] = items;
    if (items.length === 1 && only && only[0] < 0) return items;
    const all = items.length === 1 && only ? span(only[0], most) : items.sort(([a], [b]) => a - b);
    return all.filter((_, at) => at % Number(step) === 0);
  }
  if (text.includes("-")) {
    const [first = "", last = ""] = split(text, "-");
    const [begin, end] = [value(field, first), value(field, last)];
    if (end < begin) throw new Bad(field);
    return span(begin, end);
  }
  if (field === "day" && text === "L") return [[LAST]];
  if (field === "day" && text === "LW") return [[LAST_WEEKDAY]];
  return [[value(field, text)]];
}

/** In two, at the first mark. */
function split(text: string, mark: string): [string, string] {
  const at = text.indexOf(mark);
  return [text.slice(0, at), text.slice(at + 1)];
}

function span(begin: number, end: number): Item[] {
  return Array.from({ length: end - begin + 1 }, (_, at): Item => [begin + at]);
}

function value(field: Field, text: string): number {
  if (field === "month" && MONTHS.includes(text)) return MONTHS.indexOf(text) + 1;
  if (field === "weekday" && DAYS.includes(text)) return DAYS.indexOf(text);
  const [least, most] = RANGES[field];
  const number = Number(text);
  if (!/^\d+$/.test(text) || number < least || number > most) throw new Bad(field);
  return number;
}

function daysIn(date: Date): number {
  return new Date(Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1, 0)).getUTCDate();
}

function dayFits(day: number, date: Date): boolean {
  if (day === LAST) return date.getUTCDate() === daysIn(date);
  if (day !== LAST_WEEKDAY) return date.getUTCDate() === day;
  const last = daysIn(date);
  const on = new Date(Date.UTC(date.getUTCFullYear(), date.getUTCMonth(), last)).getUTCDay();
  return date.getUTCDate() === last - (on === 0 ? 2 : on === 6 ? 1 : 0);
}

function weekdayFits(day: number, nth: number | undefined, date: Date): boolean {
  if (date.getUTCDay() !== day % 7) return false;
  if (nth === undefined) return true;
  return nth === LAST ? date.getUTCDate() + 7 > daysIn(date) : Math.ceil(date.getUTCDate() / 7) === nth;
}
