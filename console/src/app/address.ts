/**
 * What stands in an address, as far as it can be meant; undefined otherwise. An address can be written by hand or by
 * an older console: what a page does not know is left out, and never reaches it.
 */
export type Said = Record<string, unknown>;

/** A text; the router reads one that is a number as a number. */
export function textIn(said: unknown): string | undefined {
  if (typeof said === "number") return Math.abs(said) <= Number.MAX_SAFE_INTEGER ? String(said) : undefined;
  return typeof said === "string" && said !== "" ? said : undefined;
}

/** A whole number, `least` or more. */
export function wholeIn(said: unknown, least = -Number.MAX_SAFE_INTEGER): number | undefined {
  const number = typeof said === "string" && /^-?\d+$/.test(said) ? Number(said) : said;
  return typeof number === "number" && Number.isSafeInteger(number) && number >= least ? number : undefined;
}

const HIGHEST_ID = 2n ** 63n - 1n;

/** A task's id in its own digits; JavaScript cannot hold them all. */
export function idIn(said: string): string | undefined {
  const id = /^\d{1,40}$/.test(said) ? BigInt(said) : 0n;
  return id >= 1n && id <= HIGHEST_ID ? String(id) : undefined;
}

const A_CENTURY = 3_162_240_000;

/** A span in seconds, as long as the server knows them. */
export function secondsIn(said: unknown): number | undefined {
  const number = typeof said === "string" && /^\d+(\.\d+)?$/.test(said) ? Number(said) : said;
  return typeof number === "number" && number > 0 && number <= A_CENTURY ? number : undefined;
}

/** One of the words that are the keys of `known`. */
export function wordIn<K extends string>(said: unknown, known: Record<K, unknown>): K | undefined {
  return typeof said === "string" && Object.hasOwn(known, said) ? (said as K) : undefined;
}

/** A moment of our calendar, as the server writes them. */
export function momentIn(said: unknown): string | undefined {
  const moment = typeof said === "string" ? Date.parse(said) : Number.NaN;
  return moment >= 0 && moment < Date.UTC(9999, 0) ? new Date(moment).toISOString() : undefined;
}

/** Only what is there. */
export function present<T extends object>(found: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(found).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]?: Exclude<T[K], undefined>;
  };
}
