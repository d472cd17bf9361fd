import { describe, expect, it } from "vitest";
import type { TaskEvent } from "@/services/tasks";
import { attemptsOf } from "./executions";

const event = (kind: string, from: string | null, to: string | null, exec_id: string | null = null) =>
  ({ kind, from, to, exec_id, at: `${kind} ${exec_id}`, actor: "worker-1", detail: null }) as TaskEvent;

describe("the attempts of a task", () => {
  it("go from each start to the end of that execution, the latest first", () => {
    const events = [
      event("submitted", null, "queued"),
      event("started", "queued", "running", "a"),
      event("progress", "running", "running", "a"),
      event("retrying", "running", "retrying", "a"),
      event("due", "retrying", "queued"),
      event("started", "queued", "running", "b"),
    ];
    expect(
      attemptsOf(events).map(({ number, execution, outcome, endedAt }) => [number, execution, outcome, endedAt]),
    ).toEqual([
      [2, "b", null, null],
      [1, "a", "retrying", "retrying a"],
    ]);
  });

  it("are none before the first start", () => {
    expect(attemptsOf([event("submitted", null, "queued")])).toEqual([]);
  });
});
