import { describe, expect, it } from "vitest";
import type { TaskType } from "@/services/types";
import { bodyOf, delays, draftOf, wrongWith } from "./draft";
import { rebased } from "./rebase";

const TYPE = {
  id: 12,
  code: "charge",
  name: "Charge a card",
  category: "money",
  lane: "bank",
  uses: ["db"],
  priority: 5,
  mutex: "card:{card}",
  rate_key: null,
  unique_key: null,
  unique: "arguments",
  unique_seconds: 60,
  debounce_seconds: null,
  debounce_longest_seconds: null,
  debounce_replace: false,
  defaults: {},
  edited: false,
  declared_by: "shop:charge",
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
    retry_on: ["ApiError"],
    fatal: [],
    on_child_failure: "continue",
    callback: {
      success: { url: "https://a.example/ok", method: "POST" },
      security: { type: "aksk", ak: "shop" },
    },
  },
} as TaskType;

describe("the form of a task type", () => {
  it("sends what was there when nothing is changed, also what it does not know, and not who said so", () => {
    const { code: _code, edited: _edited, declared_by: _place, ...said } = TYPE;
    expect(bodyOf(draftOf(TYPE), TYPE)).toEqual(said);
  });

  it("sends a secret only when one was typed", () => {
    expect(bodyOf(draftOf(TYPE), TYPE).config?.callback?.security).toEqual({ type: "aksk", ak: "shop" });
    const body = bodyOf({ ...draftOf(TYPE), sk: "s3cret-s3cret-s3cret-s3cret" }, TYPE);
    expect(body.config?.callback?.security?.sk).toBe("s3cret-s3cret-s3cret-s3cret");
  });

  it("asks for the secret again when the key is another", () => {
    expect(wrongWith({ ...draftOf(TYPE), ak: "other" }, TYPE)).toEqual({ sk: "skAgain" });
    expect(wrongWith(draftOf(TYPE), TYPE)).toEqual({});
  });

  it("tells after which delays a task would be tried again", () => {
    const draft = draftOf(TYPE);
    expect(delays(draft)).toEqual([5, 10, 20, 40, 60, 60]);
    expect(delays({ ...draft, strategy: "sequence", sequence: "1, 30", retries: "3" })).toEqual([1, 30, 30]);
    expect(delays({ ...draft, strategy: "fixed_period", interval: "60", retries: "2" })).toEqual([60, 60]);
    expect(delays({ ...draft, strategy: "none" })).toEqual([]);
  });

  it("takes a period out where its field is empty", () => {
    const body = bodyOf(
      { ...draftOf(TYPE), byArguments: false, uniqueSeconds: "", unique_key: "{card}", debounce: "5" },
      TYPE,
    );
    expect(body).toMatchObject({ unique: null, unique_key: "{card}", unique_seconds: null, debounce_seconds: 5 });
  });

  it("says which periods and keys exclude or need each other", () => {
    const draft = draftOf(TYPE);
    expect(wrongWith({ ...draft, unique_key: "{card}", debounce: "5" }, TYPE)).toEqual({
      unique_key: "both",
      debounce: "both",
    });
    expect(wrongWith({ ...draft, byArguments: false, debounceLongest: "5" }, TYPE)).toEqual({
      uniqueSeconds: "key",
      debounceLongest: "debounce",
    });
    expect(wrongWith({ ...draft, uniqueSeconds: "0" }, TYPE)).toEqual({ uniqueSeconds: "seconds" });
  });

  it("says what is wrong, field by field", () => {
    const draft = { ...draftOf(null), retries: "many", error: { url: "ftp://x", method: "POST" as const } };
    expect(wrongWith(draft, null)).toEqual({ code: "needed", retries: "number", error: "url" });
  });
});

describe("a task type that is changed elsewhere meanwhile", () => {
  const draft = draftOf(TYPE);
  const { config } = TYPE;
  const NOW = {
    ...TYPE,
    lane: "rails",
    uses: ["db", "disk"],
    defaults: { region: "eu" },
    config: {
      ...config,
      timeout: 90,
      callback: { error: { url: "https://b.example/no", method: "PUT" }, security: { type: "aksk", ak: "theirs" } },
    },
  } as unknown as TaskType;

  it("is left as it is where nothing was changed here", () => {
    expect(rebased(draft, TYPE, NOW)).toEqual(bodyOf(draftOf(NOW), NOW));
  });

  it("gets what was changed here, and nothing else", () => {
    const body = rebased({ ...draft, priority: "2", mutex: "", retries: "9", sequence: "1, 2" }, TYPE, NOW);
    const theirs = bodyOf(draftOf(NOW), NOW);
    expect(body).toEqual({
      ...theirs,
      priority: 2,
      mutex: null,
      config: { ...theirs.config, max_error_count: 9, retry_sequence: [1, 2] },
    });
  });

  it("gets what was said here where both changed the same", () => {
    expect(rebased({ ...draft, lane: "canal" }, TYPE, NOW).lane).toBe("canal");
    expect(rebased({ ...draft, timeout: "5" }, TYPE, NOW).config?.timeout).toBe(5);
  });

  it("keeps a key and its secret together, and each receiver whole", () => {
    const sk = "s3cret-s3cret-s3cret-s3cret";
    const error = { url: "https://c.example/no", method: "POST" as const };
    expect(rebased({ ...draft, sk, error }, TYPE, NOW).config?.callback).toEqual({
      error,
      security: { type: "aksk", ak: "shop", sk },
    });
    expect(rebased({ ...draft, signed: false }, TYPE, NOW).config?.callback?.security).toBeUndefined();
  });
});
