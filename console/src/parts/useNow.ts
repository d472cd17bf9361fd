import { useSyncExternalStore } from "react";

const EVERY_MS = 1_000;
const watchers = new Set<() => void>();
let now = Date.now();
let timer: ReturnType<typeof setInterval> | undefined;

function watch(watcher: () => void): () => void {
  watchers.add(watcher);
  timer ??= setInterval(() => {
    now = Date.now();
    for (const each of watchers) each();
  }, EVERY_MS);
  return () => {
    watchers.delete(watcher);
    if (watchers.size === 0) {
      clearInterval(timer);
      timer = undefined;
    }
  };
}

/** The time, to the second: one clock for all that show it. */
export function useNow(): number {
  return useSyncExternalStore(watch, () => now);
}
