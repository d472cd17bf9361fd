import { describe, expect, it } from "vitest";
import type { LiveEvent } from "@/services/live";
import { MOST, matches, withMore } from "./feed";

const event = (id: number, more = {}) =>
  ({ id, kind: "started", type: "scan", actor: "worker:1", ...more }) as LiveEvent;
const ids = (events: LiveEvent[]) => events.map((each) => each.id);

describe("the feed of events", () => {
  it("shows each event once, newest first, in whatever order they came", () => {
    expect(ids(withMore([event(3), event(1)], [event(2), event(3), event(4)]))).toEqual([4, 3, 2, 1]);
  });

  it("forgets the oldest", () => {
    const many = Array.from({ length: MOST + 50 }, (_, at) => event(at + 1));
    expect(ids(withMore([], many))).toHaveLength(MOST);
    expect(ids(withMore([], many))[0]).toBe(MOST + 50);
  });

  it("is filtered by words, all of which must be there", () => {
    expect(matches(event(1), "scan work")).toBe(true);
    expect(matches(event(1), "scan person")).toBe(false);
    expect(matches(event(1), "")).toBe(true);
  });
});
