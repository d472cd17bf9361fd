import type { Language } from "@/texts";

const LOCALES: Record<Language, string> = { en: "en-GB", zh: "zh-CN" };
const UNITS: [Intl.RelativeTimeFormatUnit, number][] = [
  ["day", 86_400_000],
  ["hour", 3_600_000],
  ["minute", 60_000],
  ["second", 1_000],
];

/** "3 minutes ago", "in 20 seconds". */
export function relatively(milliseconds: number, language: Language): string {
  const format = relative(language);
  for (const [unit, length] of UNITS) {
    if (Math.abs(milliseconds) >= length) return format.format(Math.trunc(milliseconds / length), unit);
  }
  return format.format(0, "second");
}

/** "16 Nov 2026, 15:26:28.696 UTC+1". */
export function exactly(moment: Date, language: Language): string {
  return exact(language).format(moment);
}

/** "15:26:28". */
export function clock(moment: Date, language: Language): string {
  return hours(language).format(moment);
}

/** "1.2 s", "4 min", "2.5 h": short, for tables. */
export function duration(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds === 0) return "0 s";
  if (seconds < 0.0995) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  if (seconds < 99.5) return `${Math.round(seconds)} s`;
  if (seconds < 5_970) return `${Math.round(seconds / 60)} min`;
  if (seconds < 356_400) return `${(seconds / 3_600).toFixed(seconds < 35_820 ? 1 : 0)} h`;
  return `${Math.round(seconds / 86_400)} d`;
}

/** "12,345", "1.2M". */
export function amount(count: number, language: Language): string {
  return (count < 100_000 ? plain : compact)(language).format(count);
}

function once<T>(make: (locale: string) => T): (language: Language) => T {
  const made = new Map<Language, T>();
  return (language) => {
    const known = made.get(language) ?? make(LOCALES[language]);
    made.set(language, known);
    return known;
  };
}

const relative = once((locale) => new Intl.RelativeTimeFormat(locale, { numeric: "auto", style: "short" }));
const exact = once(
  (locale) =>
    new Intl.DateTimeFormat(locale, {
      year: "numeric",
      month: "short",
      day: "numeric",
      hour: "2-digit",
      minute: "2-digit",
      second: "2-digit",
      fractionalSecondDigits: 3,
      timeZoneName: "short",
    }),
);
const hours = once(
  (locale) => new Intl.DateTimeFormat(locale, { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false }),
);
const plain = once((locale) => new Intl.NumberFormat(locale));
const compact = once((locale) => new Intl.NumberFormat(locale, { notation: "compact", maximumFractionDigits: 1 }));

/** "12 MB". */
export function bytes(count: number | null | undefined): string {
  if (count === null || count === undefined) return "–";
  const units = ["B", "kB", "MB", "GB", "TB"];
  const step = Math.min(Math.floor(Math.log10(Math.max(count, 1)) / 3), units.length - 1);
  const value = count / 1000 ** step;
  return `${value < 10 && step > 0 ? value.toFixed(1) : Math.round(value)} ${units[step]}`;
}

/** "99.9%": never 100% unless it is all. */
export function share(part: number | null): string {
  if (part === null) return "–";
  if (part === 1) return "100%";
  const percent = Math.floor(part * 1000) / 10;
  return `${percent < 10 ? percent.toFixed(1) : percent >= 99 ? percent.toFixed(1) : Math.floor(percent)}%`;
}

/** "0.0042", "3.5", "120", "12k": two or three digits are enough, wherever they begin. */
export function figure(value: number): string {
  if (value < 10 && !Number.isInteger(value))
    return value < 1 ? String(Number(value.toPrecision(2))) : value.toFixed(1);
  return value < 10_000 ? String(Math.round(value)) : `${Math.round(value / 1000)}k`;
}
