import { describe, expect, it } from "vitest";
import { secondsLeft } from "./countdown";

describe("the countdown to the next poll", () => {
  it("counts from the moment of the answer, whatever the server's clock shows", () => {
    expect(secondsLeft(9.4, 1_000_000, 1_000_000)).toBe(10);
    expect(secondsLeft(9.4, 1_000_000, 1_003_000)).toBe(7);
  });

  it("stops at nought when the poll is due", () => {
    expect(secondsLeft(2, 1_000_000, 1_060_000)).toBe(0);
  });

  it("is none where no process polls", () => {
    expect(secondsLeft(null, 0, 0)).toBeNull();
  });
});
