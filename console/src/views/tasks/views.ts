import { searchOf, type TasksSearch } from "./search";

/** Searches that everybody needs. */
export const BUILT_IN = {
  all: {},
  running: { status: ["running", "scheduling", "waiting"] },
  waiting: { status: ["queued", "blocked", "pending"] },
  failing: { status: ["retrying", "failed", "partial"] },
  dead: { status: ["dead"] },
} satisfies Record<string, TasksSearch>;

export interface SavedView {
  name: string;
  search: TasksSearch;
}

const KEY = "headgate-task-views";

/** The views that were saved in this browser. */
export function savedViews(): SavedView[] {
  try {
    const said: unknown = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    if (!Array.isArray(said)) return [];
    return said.flatMap((each) =>
      typeof each?.name === "string" ? [{ name: each.name, search: searchOf(each.search ?? {}) }] : [],
    );
  } catch {
    return [];
  }
}

export function saveView(view: SavedView): SavedView[] {
  return keep([...savedViews().filter((each) => each.name !== view.name), view]);
}

export function removeView(name: string): SavedView[] {
  return keep(savedViews().filter((each) => each.name !== name));
}

function keep(views: SavedView[]): SavedView[] {
  localStorage.setItem(KEY, JSON.stringify(views));
  return views;
}
