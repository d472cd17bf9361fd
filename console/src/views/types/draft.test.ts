import { describe, expect, it } from "vitest";
import type { TaskType } from "@/services/types";
import { bodyOf, changesOf, delays, draftOf, wrongWith } from "./draft";

const TYPE = {
  code: "charge",
  name: "Charge a card",
  category: "money",
  lane: "bank",
  uses: ["db"],
  priority: 5,
  mutex: "card:{card}",
  rate_key: null,
  unique_key: null,
  defaults: {},
  later: "what a newer server knows",
  config: {
    retry_strategy: "exponential",
    retry_interval: 0,
    retry_sequence: [],
    initial_delay: 5,
    factor: 2,
    cap: 60,
    jitter: 0.1,
    max_error_count: 6,
    timeout: 30,
    need_manual: true,
    unknown_errors: "retry",
    on_child_failure: "continue",
    callback: {
      success: { url: "https://a.example/ok", method: "POST" },
      security: { type: "aksk", ak: "shop" },
    },
  },
} as TaskType;

describe("the form of a task type", () => {
  it("changes nothing when nothing is changed, not even what it does not know", () => {
    const body = bodyOf(draftOf(TYPE), TYPE);
    expect(changesOf(TYPE, body)).toEqual([]);
    expect(body).toHaveProperty("later");
  });

  it("sends a secret only when one was typed, and shows it nowhere", () => {
    expect(bodyOf(draftOf(TYPE), TYPE).config?.callback?.security).toEqual({ type: "aksk", ak: "shop" });
    const body = bodyOf({ ...draftOf(TYPE), sk: "s3cret-s3cret-s3cret-s3cret" }, TYPE);
    expect(body.config?.callback?.security?.sk).toBe("s3cret-s3cret-s3cret-s3cret");
    const changes = changesOf(TYPE, body);
    expect(changes.map((change) => change.path)).toEqual(["config.callback.security.sk"]);
    expect(JSON.stringify(changes)).not.toContain("s3cret");
  });

  it("asks for the secret again when the key is another", () => {
    expect(wrongWith({ ...draftOf(TYPE), ak: "other" }, TYPE)).toEqual({ sk: "skAgain" });
    expect(wrongWith(draftOf(TYPE), TYPE)).toEqual({});
  });

  it("says what would change, before and after", () => {
    const draft = { ...draftOf(TYPE), timeout: "45", success: { url: "", method: "POST" as const } };
    expect(changesOf(TYPE, bodyOf(draft, TYPE))).toEqual([
      { path: "config.callback.success.method", before: "POST", after: undefined },
      { path: "config.callback.success.url", before: "https://a.example/ok", after: undefined },
      { path: "config.timeout", before: 30, after: 45 },
    ]);
  });

  it("tells after which delays a task would be tried again", () => {
    const draft = draftOf(TYPE);
    expect(delays(draft)).toEqual([5, 10, 20, 40, 60, 60]);
    expect(delays({ ...draft, strategy: "sequence", sequence: "1, 30", retries: "3" })).toEqual([1, 30, 30]);
    expect(delays({ ...draft, strategy: "fixed_period", interval: "60", retries: "2" })).toEqual([60, 60]);
    expect(delays({ ...draft, strategy: "none" })).toEqual([]);
  });

  it("says what is wrong, field by field", () => {
    const draft = { ...draftOf(null), retries: "many", error: { url: "ftp://x", method: "POST" as const } };
    expect(wrongWith(draft, null)).toEqual({ code: "needed", retries: "number", error: "url" });
  });
});
