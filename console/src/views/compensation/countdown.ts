/** Whole seconds until a moment that was `seconds` away when the server was asked; null: there is none. */
export function secondsLeft(seconds: number | null, askedAt: number, now: number): number | null {
  return seconds === null ? null : Math.max(0, Math.ceil(seconds - (now - askedAt) / 1000));
}
