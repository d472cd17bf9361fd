import { describe, expect, it } from "vitest";
import { groupsOf } from "@/services/acts";
import { Problem } from "@/services/problem";
import { en } from "@/texts/en";
import { zh } from "@/texts/zh";
import { told } from "./problems";
import { eventText, reasonText, refusalText } from "./told";

const wrong = { task_id: 7, status: "queued", action: "retry", allowed: "dead,retrying" };

describe("what the server says", () => {
  it("is told in the language that is spoken, by its code", () => {
    const gate = { reason: "as the server says it", code: "mutex-held", params: { mutex: "film", task_id: 7 } };
    expect(reasonText(gate, en)).toBe("film: held by task 7");
    expect(reasonText(gate, zh)).toBe("film：由任务 7 持有");
    const stuck = { ...gate, params: { ...gate.params, stuck: 7, stuck_worker: "rig" } };
    expect(reasonText(stuck, en)).toBe("film: held by task 7; the handler of task 7 does not stop on worker rig");
  });

  it("is told as it is where the code is a newer server's", () => {
    expect(reasonText({ reason: "the moon is full", code: "moon-full", params: {} }, zh)).toBe("the moon is full");
    expect(refusalText({ code: "moon-full", params: {} }, zh)).toBeNull();
    const problem = Problem.of(409, {
      type: "urn:headgate:problem:refused",
      detail: "the moon is full",
      code: "moon-full",
    });
    expect(told(problem, zh)).toMatchObject({ title: "现在无法执行", detail: "the moon is full" });
  });

  it("names who paused something, and why", () => {
    const params = { scope: "lane", name: "mail", actor: "key:ops", reason: "the provider is down" };
    expect(reasonText({ reason: "", code: "paused", params }, en)).toBe(
      "lane mail is paused by key:ops: the provider is down",
    );
    expect(reasonText({ reason: "", code: "paused", params }, zh)).toBe(
      "通道 mail 已被 key:ops 暂停：the provider is down",
    );
  });
});

describe("a refusal", () => {
  it("says which states would do", () => {
    const problem = Problem.of(409, { code: "wrong-state", params: wrong, type: "urn:headgate:problem:refused" });
    expect(told(problem, en).detail).toBe("task 7 is queued; only dead or retrying tasks can be retried");
    expect(told(problem, zh).detail).toBe("任务 7 的状态为排队中；只有待人工处理、等待重试的任务可以重试");
  });

  it("of many tasks is told once for each reason, whichever tasks they are", () => {
    const refused = [1, 2, 3].map((id) => ({ problem: "…", code: "wrong-state", params: { ...wrong, task_id: id } }));
    const gone = { problem: "no task 9", code: "no-task", params: { task_id: 9 } };
    const say = (each: { code?: string | undefined }) => refusalText(each, en) ?? "";
    expect(groupsOf([gone, ...refused, { problem: null }], say)).toEqual([
      ["the task is queued; only dead or retrying tasks can be retried", 3],
      ["there is no such task", 1],
    ]);
  });
});

describe("an event", () => {
  const event = { kind: "retrying", task_id: 5, detail: "as the server says it" };
  const said = (params: Record<string, unknown>, t = en, more = {}) =>
    eventText({ ...event, params, ...more }, t, t === en ? "en" : "zh");

  it("says why an attempt failed and when the next one comes", () => {
    const params = { reason: "error", error: "OSError: gone", delay: 60 };
    expect(said(params)).toBe("OSError: gone · runs again in 60 s");
    expect(said(params, zh)).toBe("OSError: gone · 60 s 后重试");
  });

  it("says why an attempt was the last one", () => {
    expect(said({ reason: "fatal", error: "ValueError: no" })).toBe("never retried · ValueError: no");
    expect(said({ reason: "fatal", error: "ValueError: no" }, zh)).toBe("此类错误从不重试 · ValueError: no");
  });

  it("says what somebody changed, and keeps where they did it to the audit", () => {
    const params = { changes: { priority: { old: 5, new: 1 }, note: { old: 3 } }, address: "10.0.0.1" };
    expect(said(params)).toBe("priority 5 → 1, note 3 → (none)");
  });

  it("says a reason in a person's words as they are", () => {
    expect(said({ lane: "*", reason: "overdue" }, en, { task_id: null })).toBe("everything · overdue");
  });

  it("says progress, and what was replaced", () => {
    expect(said({ progress: { done: 2, total: 3, note: "cut" } })).toBe("2 of 3: cut");
    expect(said({ replaced: { n: 1 } })).toBe('replaces {"n":1}');
  });
});
