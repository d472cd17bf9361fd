import { page, type Task } from "@/services/tasks";
import { filterOf, type TasksSearch } from "./search";

export const MOST = 10_000;
const PAGE = 200;

/** All tasks that a search finds, newest first; the newest 10,000 if there are more. */
export async function allMatching(search: TasksSearch): Promise<Task[]> {
  const filter = filterOf(search, Date.now());
  const found: Task[] = [];
  let cursor: number | null = null;
  do {
    const next: { items: Task[]; next_cursor: number | null } = await page(filter, cursor, PAGE);
    found.push(...next.items);
    cursor = next.next_cursor;
  } while (cursor !== null && found.length < MOST);
  return found.slice(0, MOST);
}
