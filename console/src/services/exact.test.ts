import { describe, expect, it } from "vitest";
import { exactly, readJson } from "./exact";

const sent = (text: string) => {
  const read = readJson(text);
  return "value" in read ? JSON.stringify(exactly(read.value)) : read.problem;
};

describe("JSON that a person typed", () => {
  it("is sent digit by digit, however large a number is", () => {
    const text = '{"order":12345678901234567890123,"list":[1,-98765432109876543210],"part":0.25}';
    expect(sent(text)).toBe(text);
  });

  it("is told from what is none", () => {
    expect(readJson('{"a": }')).toHaveProperty("problem");
    expect(readJson("null")).toEqual({ value: null });
  });
});
