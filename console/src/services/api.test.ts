import { afterEach, describe, expect, it } from "vitest";
import { answered } from "./api";
import { isRefused } from "./problem";
import { heard, silence } from "./reach";

afterEach(() => heard(true));

const answer = (status: number, error: unknown = {}) =>
  answered(Promise.resolve({ error, response: new Response(null, { status }) })).catch((problem) => problem);

describe("a server", () => {
  it.each([502, 503, 504])("is dead when %i is answered in its place", async (status) => {
    await answer(status);
    expect(silence()).not.toBeNull();
  });

  it.each([404, 409, 500])("is alive when it answers %i", async (status) => {
    await answer(status);
    expect(silence()).toBeNull();
  });

  it("that is merely busy is alive", async () => {
    await answer(503, { type: "urn:headgate:problem:busy" });
    expect(silence()).toBeNull();
  });

  it("has done nothing of what it refused, and maybe what it did not answer", async () => {
    expect(isRefused(await answer(409))).toBe(true);
    expect(isRefused(await answer(504))).toBe(false);
  });
});
