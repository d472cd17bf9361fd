import { Exact, parse } from "./json";

declare global {
  interface JSON {
    /** Text that `JSON.stringify` writes as it is. */
    rawJSON(text: string): unknown;
  }
}

/** JSON that somebody typed: what it says, or why it is none. */
export function readJson(text: string): { value: unknown } | { problem: string } {
  try {
    return { value: parse(text) };
  } catch (error) {
    return { problem: error instanceof Error ? error.message : String(error) };
  }
}

/** The same for sending: a number that JavaScript cannot hold goes out in its own digits. */
export function exactly(value: unknown): unknown {
  if (value instanceof Exact) return JSON.rawJSON(value.digits);
  if (Array.isArray(value)) return value.map(exactly);
  if (typeof value === "object" && value !== null) {
    return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, exactly(inner)]));
  }
  return value;
}
