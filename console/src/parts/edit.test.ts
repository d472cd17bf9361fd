import { describe, expect, it } from "vitest";
import { exactly } from "@/services/exact";
import { parse } from "@/services/json";
import type { Task } from "@/services/tasks";
import { draftOf, editOf, wrongWith } from "./edit";

const TASK = parse(`{
  "id": 7, "type": "invoice", "lane": "default", "priority": 5, "timeout_seconds": null, "max_error_count": null,
  "ext": {"number": 12345678901234567890123, "address": ""}
}`) as Task;

describe("edit and replay", () => {
  it("changes nothing that was not edited", () => {
    expect(editOf(draftOf(TASK), TASK)).toEqual({});
  });

  it("sends a task's arguments as they were typed, digit by digit", () => {
    const draft = draftOf(TASK);
    const edit = editOf({ ...draft, ext: draft.ext.replace('"address": ""', '"address": "Elm 5"') }, TASK);
    expect(JSON.stringify(exactly(edit))).toBe('{"ext":{"number":12345678901234567890123,"address":"Elm 5"}}');
  });

  it("merges into many, and removes what is set to null", () => {
    const edit = editOf({ ...draftOf(null), ext: '{"address": "Elm 5", "old": null}', priority: "1" }, null);
    expect(edit).toEqual({ merge: { address: "Elm 5", old: null }, priority: 1 });
    expect(editOf(draftOf(null), null)).toEqual({});
  });

  it("says what is wrong, field by field", () => {
    expect(wrongWith({ ...draftOf(TASK), ext: "{" }, TASK).ext).toHaveProperty("json");
    expect(wrongWith({ ...draftOf(null), ext: "[1]" }, null)).toEqual({ ext: "object" });
    expect(wrongWith({ ...draftOf(TASK), priority: "high" }, TASK)).toEqual({ numbers: new Set(["priority"]) });
    expect(wrongWith(draftOf(TASK), TASK)).toEqual({});
  });
});
