import { describe, expect, it } from "vitest";
import { nextFilled } from "./pages";

const PAGES: Record<string, { items: number[]; next_cursor: number | null }> = {
  start: { items: [], next_cursor: 80 },
  80: { items: [], next_cursor: 60 },
  60: { items: [59, 41], next_cursor: 40 },
  40: { items: [], next_cursor: 20 },
  20: { items: [], next_cursor: null },
};
const ask = async (cursor: number | null) => PAGES[cursor ?? "start"] ?? { items: [], next_cursor: null };

describe("a list", () => {
  it("continues after empty pages until there is something to show", async () => {
    expect(await nextFilled(null, ask)).toEqual({ items: [59, 41], next_cursor: 40 });
  });

  it("says that it is at its end, when only empty pages are left", async () => {
    expect(await nextFilled(40, ask)).toEqual({ items: [], next_cursor: null });
  });

  it("stops when it is aborted", async () => {
    const left = async (cursor: number | null) => {
      if (cursor === 80) throw new DOMException("left", "AbortError");
      return ask(cursor);
    };
    await expect(nextFilled(null, left)).rejects.toThrow("left");
  });
});
