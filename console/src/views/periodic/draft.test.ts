import { describe, expect, it } from "vitest";
import { parse } from "@/services/json";
import type { Schedule } from "@/services/periodic";
import { bodyOf, draftOf, wrongWith } from "./draft";

const SCHEDULE = parse(`{
  "id": 3, "tenant_id": 7, "type": "report", "creator": 5, "cron_expressions": "30 2 * * MON-FRI",
  "timezone": "Asia/Shanghai", "status": "online", "log": "trigger_log", "category": "night",
  "ext": {"order": 12345678901234567890123}, "missed": "once", "overlap": "queue", "http": null,
  "task": {"lane": "slow", "priority": 2, "timeout_seconds": 9.5}, "code": null, "next_tick": null,
  "create_date": "2026-11-16T12:00:00Z", "update_date": "2026-11-16T12:00:00Z"
}`) as Schedule;

describe("the form of a schedule", () => {
  it("says again all that a schedule says, when nothing is changed", () => {
    const { id, tenant_id, status, code, next_tick, create_date, update_date, ...said } = SCHEDULE;
    expect(bodyOf(draftOf(SCHEDULE, "UTC"), false)).toEqual(said);
  });

  it("leaves the status of one that is there alone", () => {
    expect(bodyOf(draftOf(SCHEDULE, "UTC"), false)).not.toHaveProperty("status");
    expect(bodyOf({ ...draftOf(null, "UTC"), online: false }, true).status).toBe("new");
  });

  it("is empty at first, and says what it needs", () => {
    const wrong = wrongWith(draftOf(null, "Europe/Berlin"));
    expect(wrong).toEqual({ cron: true, type: true });
  });

  it("says what is wrong, field by field", () => {
    const draft = draftOf(SCHEDULE, "UTC");
    const task = { ...draft.task, priority: "high" };
    const wrong = wrongWith({ ...draft, calls: true, url: "ftp://x", ext: "{", task });
    expect(wrong).toMatchObject({ url: "bad", numbers: new Set(["priority"]) });
    expect(wrong.ext).toBeTruthy();
  });
});
