/** JSON as it was written: a number that JavaScript cannot hold stays the text it was. */
export function parse(text: string): unknown {
  return JSON.parse(text, (_key, value: unknown, context?: { source: string }) => {
    if (typeof value === "number" && context && !held(value, context.source)) return new Exact(context.source);
    return value;
  });
}

/** A number beyond what JavaScript can hold, in its own digits. */
export class Exact {
  constructor(readonly digits: string) {}
  toString(): string {
    return this.digits;
  }
}

function held(value: number, source: string): boolean {
  return Number.isSafeInteger(value) || !/^-?\d+$/.test(source);
}
