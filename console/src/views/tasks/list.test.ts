import { describe, expect, it, vi } from "vitest";
import type { LiveEvent } from "@/services/live";
import type { Task } from "@/services/tasks";
import { type Fetch, TaskList } from "./list";

const task = (id: number, status = "queued") => ({ id, status }) as Task;
const event = (task_id: number, kind: string, to: string) => ({ task_id, kind, to }) as LiveEvent;
const batch = (...events: LiveEvent[]) => ({ events, others: [], missed: false });

/** A server with tasks that a test can change. */
function server(count: number) {
  const tasks = new Map<number, Task>();
  for (let id = 1; id <= count; id += 1) tasks.set(id, task(id));
  const fetch: Fetch = async (cursor, limit) => {
    const found = [...tasks.values()].filter((each) => cursor === null || each.id < cursor).sort((a, b) => b.id - a.id);
    const items = found.slice(0, limit);
    return { items, next_cursor: found.length > limit ? (items.at(-1)?.id ?? null) : null };
  };
  return { tasks, fetch: vi.fn(fetch) };
}

async function settled(list: TaskList, holds: () => boolean) {
  await vi.waitFor(() => expect(holds()).toBe(true));
  list.stop();
}

const ids = (list: TaskList) => list.snapshot().rows.map((row) => row.id);

describe("a list of tasks", () => {
  it("reads on page by page, newest first, until there are no more", async () => {
    const { fetch } = server(250);
    const list = new TaskList(fetch, 0);
    for (let page = 0; page < 5; page += 1) await list.more();
    expect(ids(list)).toEqual(Array.from({ length: 250 }, (_, at) => 250 - at));
    expect(list.snapshot().more).toBe(false);
    expect(fetch).toHaveBeenCalledTimes(3);
  });

  it("shows a change at once and asks for the rest soon", async () => {
    const { fetch, tasks } = server(3);
    const list = new TaskList(fetch, 0);
    await list.more();
    tasks.set(2, { ...task(2, "running"), worker_id: 7 } as Task);
    list.hear(batch(event(2, "started", "running")));
    expect(list.snapshot().rows[1]?.status).toBe("running");
    await settled(list, () => list.snapshot().rows[1]?.worker_id === 7);
  });

  it("takes new tasks in while its top is on the screen", async () => {
    const { fetch, tasks } = server(3);
    const list = new TaskList(fetch, 0);
    await list.more();
    tasks.set(4, task(4));
    list.hear(batch(event(4, "submitted", "queued")));
    await settled(list, () => ids(list)[0] === 4);
    expect(ids(list)).toEqual([4, 3, 2, 1]);
  });

  it("holds new tasks back while somebody reads further down, and says how many there are", async () => {
    const { fetch, tasks } = server(150);
    const list = new TaskList(fetch, 0);
    await list.more();
    await list.more();
    list.look(100, 120, false);
    tasks.set(151, task(151));
    list.hear(batch(event(151, "submitted", "queued")));
    expect(list.snapshot().fresh).toBe(1);
    await settled(list, () => fetch.mock.calls.length > 2);
    expect(ids(list)[0]).toBe(150);
  });

  it("leaves no gap when more than a page of new tasks came", async () => {
    const { fetch, tasks } = server(10);
    const list = new TaskList(fetch, 0);
    await list.more();
    for (let id = 11; id <= 260; id += 1) tasks.set(id, task(id));
    list.hear(batch(event(260, "submitted", "queued")));
    await settled(list, () => ids(list)[0] === 260 && ids(list).length === 260);
    expect(ids(list)).toEqual(Array.from({ length: 260 }, (_, at) => 260 - at));
  });

  it("begins anew when more came than can be read in between", async () => {
    const { fetch, tasks } = server(10);
    const list = new TaskList(fetch, 0);
    await list.more();
    for (let id = 11; id <= 1000; id += 1) tasks.set(id, task(id));
    await list.top();
    expect(ids(list)).toHaveLength(500);
    expect(list.snapshot().more).toBe(true);
    await list.more();
    expect(ids(list).at(-1)).toBe(401);
  });

  it("drops what no longer belongs to it and takes in what now does, on the screen", async () => {
    const { fetch, tasks } = server(300);
    const list = new TaskList(fetch, 0);
    for (let page = 0; page < 3; page += 1) await list.more();
    list.look(150, 170, false);
    tasks.delete(145);
    list.hear(batch(event(145, "completed", "succeeded")));
    await settled(list, () => !ids(list).includes(145));
    expect(ids(list)).toHaveLength(299);
  });

  it("reads on through pages that hold nothing, until there is something to show", async () => {
    const pages = [
      { items: [], next_cursor: 900 },
      { items: [task(850)], next_cursor: 800 },
      { items: [], next_cursor: null },
    ];
    const list = new TaskList(async () => pages.shift() ?? { items: [], next_cursor: null }, 0);
    await list.more();
    expect(ids(list)).toEqual([850]);
    expect(list.snapshot().more).toBe(false);
  });

  it("says what went wrong and continues", async () => {
    const { fetch } = server(3);
    fetch.mockRejectedValueOnce(new Error("away"));
    const list = new TaskList(fetch, 0);
    await list.more();
    expect(String(list.snapshot().error)).toContain("away");
    await list.more();
    expect(list.snapshot().error).toBeUndefined();
    expect(ids(list)).toEqual([3, 2, 1]);
  });
});
