/** Every zone by its name, UTC first; `also` is among them, though the browser may not know it. */
export function zones(also: string): string[] {
  return [...new Set(["UTC", also, ...Intl.supportedValuesOf("timeZone")].filter(Boolean))];
}

/** "Mon 2026-11-16 02:30:00": a tick as the clock of its zone shows it (`2026-11-16T02:30:00+01:00`). */
export function onTheClock(local: string, locale: string): string {
  const shown = local.slice(0, "2026-11-16T02:30:00".length);
  const day = new Intl.DateTimeFormat(locale, { timeZone: "UTC", weekday: "short" }).format(Date.parse(`${shown}Z`));
  return `${day} ${shown.replace("T", " ")}`;
}
