import { describe, expect, it } from "vitest";
import { headOf } from "./errors";

describe("an error in one line", () => {
  it("is what stands before the traceback", () => {
    const told = "Fatal: not found\n\nTraceback (most recent call last):\n…\nheadgate.core.retry.Fatal: not found";
    expect(headOf(told)).toBe("Fatal: not found");
    expect(headOf("\n  Boom: it broke  \nat line 7")).toBe("Boom: it broke");
    expect(headOf(null)).toBe("");
  });

  it("is how a traceback ends, if there is nothing else", () => {
    expect(headOf("Traceback (most recent call last):\n  File …\nValueError: no")).toBe("ValueError: no");
  });

  it("names the kind of the error without its modules, and leaves other words alone", () => {
    expect(headOf("headgate.core.retry.Fatal: not found")).toBe("Fatal: not found");
    expect(headOf("http.client.RemoteDisconnected")).toBe("RemoteDisconnected");
    expect(headOf("www.example.org refused it")).toBe("www.example.org refused it");
    expect(headOf("10.0.0.1: refused")).toBe("10.0.0.1: refused");
  });
});
