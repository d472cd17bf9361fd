import { describe, expect, it } from "vitest";
import { oldestOf, type Point } from "./figures";

const point = (waiting: number | null, oldest: number | null) => ({ waiting, oldest }) as Point;

describe("the oldest that waits", () => {
  it("is as old as it was", () => {
    expect(oldestOf(point(2, 90))).toBe(90);
  });

  it("is nothing old when nothing waits", () => {
    expect(oldestOf(point(0, null))).toBe(0);
  });

  it("is unknown where nobody looked", () => {
    expect(oldestOf(point(null, null))).toBeNull();
  });
});
