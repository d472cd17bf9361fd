import { describe, expect, it } from "vitest";
import { idIn, type Said } from "@/app/address";
import { views } from ".";

/** What a page takes from an address. */
function taken(path: string, said: Said): unknown {
  const options = views.map((each) => each.options as { path?: string; validateSearch?: (said: Said) => unknown });
  return options.find((each) => each.path === path)?.validateSearch?.(said);
}

const NAMES = {
  "/": ["range"],
  "/tasks": ["status", "tenant_id", "creator", "parent_id", "within", "created_after", "created_before", "q", "lane"],
  "/queue": ["lane", "status", "type", "subscription_id"],
  "/desk": ["type", "lane", "error", "younger_than", "older_than"],
  "/periodic": ["status", "type", "id", "edit"],
  "/types": ["q", "code", "make"],
  "/callbacks": ["status", "kind", "type", "host", "open"],
  "/events": ["q"],
};
const CLOSED = {
  "/": ["range"],
  "/tasks": ["status", "tenant_id", "creator", "parent_id", "within", "created_after", "created_before"],
  "/queue": ["lane", "status", "subscription_id"],
  "/desk": ["younger_than", "older_than"],
  "/periodic": ["status", "id", "edit"],
  "/types": ["make"],
  "/callbacks": ["status", "kind", "open"],
};

describe("what an address says", () => {
  it.each(Object.entries(NAMES))("never breaks %s, whatever shape it has", (path, names) => {
    for (const odd of [null, "", true, {}, { a: 1 }, [], [{}], [[1]], 1e300, Number.POSITIVE_INFINITY]) {
      const said = Object.fromEntries(names.map((name) => [name, odd]));
      expect(taken(path, said), JSON.stringify(odd)).toEqual(path === "/types" && odd === true ? { make: true } : {});
    }
  });

  it.each(Object.entries(CLOSED))("is left out where %s does not know the word", (path, names) => {
    for (const odd of ["bogus", "toString", "__proto__", "0x10", "1e3", "-", 1.5e17]) {
      expect(taken(path, Object.fromEntries(names.map((name) => [name, odd]))), String(odd)).toEqual({});
    }
  });

  it("is a task only if there can be one of this number", () => {
    expect(idIn("0042")).toBe("42");
    expect(idIn("9223372036854775807")).toBe("9223372036854775807");
    for (const odd of ["9223372036854775808", "0", "", "-1", "1.5", "0x1f", "abc", "9".repeat(99)]) {
      expect(idIn(odd), odd).toBeUndefined();
    }
  });

  it("is taken where it can be meant", () => {
    expect(taken("/tasks", { status: "dead", creator: "7", q: 12, within: 900 })).toEqual({
      status: ["dead"],
      creator: 7,
      q: "12",
      within: 900,
    });
    expect(taken("/tasks", { status: ["bogus", "dead", "dead"], created_after: "2026-01-02" })).toEqual({
      status: ["dead"],
      created_after: "2026-01-02T00:00:00.000Z",
    });
    expect(taken("/queue", { lane: "no_cookie", status: "queued", subscription_id: 0 })).toEqual({
      lane: "no_cookie",
      status: "queued",
      subscription_id: 0,
    });
    expect(taken("/desk", { older_than: 3600, error: 404 })).toEqual({ older_than: 3600, error: "404" });
    expect(taken("/periodic", { status: "online", id: 3, edit: "this" })).toEqual({
      status: "online",
      id: 3,
      edit: "this",
    });
    expect(taken("/callbacks", { kind: "error", open: "4-5" })).toEqual({ kind: "error", open: "4-5" });
    expect(taken("/", { range: 3600 })).toEqual({ range: "3600" });
  });
});
