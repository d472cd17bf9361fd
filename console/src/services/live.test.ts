import { afterEach, describe, expect, it, vi } from "vitest";
import { Live } from "./live";
import { heard, silence } from "./reach";

class Stream extends EventTarget {
  readyState = 0;
  onopen: (() => void) | null = null;
  onerror: (() => void) | null = null;
  close() {}
}

afterEach(() => heard(true));

describe("a stream of events", () => {
  it("that ends once is no silence, and one that does not come back is", () => {
    vi.stubGlobal("EventSource", { CLOSED: 2 });
    const stream = new Stream();
    const live = new Live(() => stream as unknown as EventSource);
    live.start();
    stream.onopen?.();
    stream.onerror?.();
    expect(silence()).toBeNull();
    stream.onerror?.();
    expect(silence()).not.toBeNull();
    stream.onopen?.();
    expect(silence()).toBeNull();
    live.stop();
  });
});
