import { useCallback, useEffect, useMemo, useSyncExternalStore } from "react";
import { useEvents } from "@/app/live";
import type { Batch } from "@/services/live";
import { page } from "@/services/tasks";
import { type Shown, TaskList } from "./list";
import { filterOf, type TasksSearch } from "./search";

/** The list for a search, kept true by events. */
export function useTaskList(search: TasksSearch): { list: TaskList; shown: Shown } {
  const key = JSON.stringify(search);
  const list = useMemo(() => {
    const wanted = JSON.parse(key) as TasksSearch;
    return new TaskList((cursor, limit) => page(filterOf(wanted, Date.now()), cursor, limit));
  }, [key]);
  useEffect(() => {
    list.begin();
    return () => list.stop();
  }, [list]);
  useEvents(useCallback((batch: Batch) => list.hear(batch), [list]));
  return { list, shown: useSyncExternalStore(list.watch, list.snapshot) };
}
