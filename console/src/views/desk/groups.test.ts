import { describe, expect, it } from "vitest";
import type { Task } from "@/services/tasks";
import { groupsOf } from "./groups";

const dead = (id: number, type: string, error_info: string | null) => ({ id, type, error_info }) as Task;

describe("what has gone wrong, at a glance", () => {
  it("counts those that died of the same, whatever their numbers", () => {
    const groups = groupsOf([
      dead(1, "invoice", "ValueError: invoice 1001 has no address\n  at line 7"),
      dead(2, "charge", "ConnectionError: refused"),
      dead(3, "invoice", "ValueError: invoice 1002 has no address\n  at line 7"),
    ]);
    expect(groups).toEqual([
      { type: "invoice", error: "ValueError: invoice … has no address", piece: "ValueError: invoice", ids: [1, 3] },
      { type: "charge", error: "ConnectionError: refused", piece: "ConnectionError: refused", ids: [2] },
    ]);
  });

  it("knows one without an error", () => {
    expect(groupsOf([dead(1, "x", null)])).toEqual([{ type: "x", error: "", piece: "", ids: [1] }]);
  });
});
