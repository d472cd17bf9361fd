import { describe, expect, it } from "vitest";
import { onTheClock, zones } from "./clock";

describe("the clock of a time zone", () => {
  it("shows what the server says it shows, wherever the browser is", () => {
    expect(onTheClock("2026-03-29T03:00:00+02:00", "en")).toBe("Sun 2026-03-29 03:00:00");
    expect(onTheClock("2026-03-29T23:30:00-10:00", "en")).toBe("Sun 2026-03-29 23:30:00");
    expect(onTheClock("2026-03-30T00:30:00Z", "zh")).toBe("周一 2026-03-30 00:30:00");
  });

  it("offers the zone that a schedule has, though the browser does not know it", () => {
    const known = zones("Mars/Olympus");
    expect(known.slice(0, 2)).toEqual(["UTC", "Mars/Olympus"]);
    expect(known).toContain("Europe/Berlin");
    expect(new Set(zones("UTC")).size).toBe(zones("UTC").length);
  });
});
