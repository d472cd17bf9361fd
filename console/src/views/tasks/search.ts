import { momentIn, present, type Said, secondsIn, textIn, wholeIn } from "@/app/address";
import { isState, type State } from "@/services/states";
import type { TaskFilter } from "@/services/tasks";

/** What the list shows, as it stands in the address: an address can be shared. */
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
  /** Created at most this many seconds ago. */
  within?: number;
  created_after?: string;
  created_before?: string;
  q?: string;
}

/** What an address says, as far as it can be meant. */
export function searchOf(said: Said): TasksSearch {
  const states = [said.status].flat().filter((word): word is State => typeof word === "string" && isState(word));
  return present({
    status: states.length > 0 ? [...new Set(states)] : undefined,
    type: textIn(said.type),
    lane: textIn(said.lane),
    category: textIn(said.category),
    tenant_id: wholeIn(said.tenant_id),
    creator: wholeIn(said.creator),
    mutex: textIn(said.mutex),
    parent_id: wholeIn(said.parent_id),
    agent_id: textIn(said.agent_id),
    correlation_id: textIn(said.correlation_id),
    within: secondsIn(said.within),
    created_after: momentIn(said.created_after),
    created_before: momentIn(said.created_before),
    q: textIn(said.q),
  });
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
