import { isState, type State } from "@/services/states";
import type { TaskFilter } from "@/services/tasks";

/** What the list shows, as it stands in the address: an address can be sent to somebody else. */
export interface TasksSearch {
  status?: State[];
  type?: string;
  lane?: string;
  category?: string;
  tenant_id?: number;
  creator?: number;
  mutex?: string;
  parent_id?: number;
  agent_id?: string;
  correlation_id?: string;
  /** Made at most so many seconds ago. */
  within?: number;
  created_after?: string;
  created_before?: string;
  q?: string;
}

const TEXTS = ["type", "lane", "category", "mutex", "agent_id", "correlation_id", "q"] as const;
const NUMBERS = ["tenant_id", "creator", "parent_id", "within"] as const;
const TIMES = ["created_after", "created_before"] as const;

/** What an address says, as far as it can be meant. */
export function searchOf(said: Record<string, unknown>): TasksSearch {
  const found: TasksSearch = {};
  const states = [said.status].flat().filter((word): word is State => typeof word === "string" && isState(word));
  if (states.length > 0) found.status = [...new Set(states)];
  for (const name of TEXTS) {
    const text = said[name];
    if ((typeof text === "string" || typeof text === "number") && String(text) !== "") found[name] = String(text);
  }
  for (const name of NUMBERS) {
    const number = Number(said[name] ?? Number.NaN);
    if (Number.isSafeInteger(number)) found[name] = number;
  }
  for (const name of TIMES) {
    const time = said[name];
    if (typeof time === "string" && !Number.isNaN(Date.parse(time))) found[name] = new Date(time).toISOString();
  }
  return found;
}

/** The search in the words of the API. */
export function filterOf({ within, ...search }: TasksSearch, now: number): TaskFilter {
  const filter: TaskFilter = { ...search };
  if (within !== undefined) filter.created_after = new Date(now - within * 1000).toISOString();
  return filter;
}

/** Whether it is the same search, in whatever order it was put together. */
export function isSame(one: TasksSearch, other: TasksSearch): boolean {
  const written = (search: TasksSearch) => JSON.stringify(Object.entries(search).sort());
  return written(one) === written(other);
}
