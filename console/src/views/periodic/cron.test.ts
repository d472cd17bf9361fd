import { describe, expect, it } from "vitest";
import { readCron } from "./cron";
import { nextTicks } from "./ticks";
import table from "./ticks.json";

const reckoned = (expression: string, zone: string, after: string, count: number) => {
  const cron = readCron(expression);
  if ("problem" in cron) throw new Error(JSON.stringify(cron.problem));
  return nextTicks(cron, zone, Date.parse(after), count).map((tick) => `${new Date(tick).toISOString().slice(0, 19)}Z`);
};

describe("the cron helper", () => {
  // ticks.json is what `headgate.core.cron.preview` answers, over the days on which clocks are set.
  it("foretells what the server does, where clocks are set too", () => {
    for (const [expression, zone, after, ticks] of table as [string, string, string, string[]][]) {
      expect({ expression, zone, after, ticks: reckoned(expression, zone, after, ticks.length) }).toEqual({
        expression,
        zone,
        after,
        ticks,
      });
    }
  });

  it("says which field it cannot read", () => {
    expect(readCron("61 * * * *")).toEqual({ problem: { field: "minute" } });
    expect(readCron("0 0 * * MOON")).toEqual({ problem: { field: "weekday" } });
    expect(readCron("0 5-3 * * *")).toEqual({ problem: { field: "hour" } });
    expect(readCron("0 */0 * * *")).toEqual({ problem: { field: "hour" } });
  });

  it("says that there are too few fields, or too many", () => {
    expect(readCron("* * *")).toEqual({ problem: { fields: 3 } });
    expect(readCron("")).toEqual({ problem: { fields: 0 } });
  });

  it("finds nothing for a day that never comes", () => {
    expect(reckoned("0 0 31 2 *", "UTC", "2026-01-01T00:00:00Z", 5)).toEqual([]);
  });
});
