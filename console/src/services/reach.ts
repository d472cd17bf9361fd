/** Whether the server answered when it was last asked, and since when it has not. */
let silentSince: number | null = null;
const watchers = new Set<() => void>();

export function heard(answered: boolean): void {
  if (answered === (silentSince === null)) return;
  silentSince = answered ? null : Date.now();
  for (const watcher of watchers) watcher();
}

export function silence(): number | null {
  return silentSince;
}

export function watchSilence(watcher: () => void): () => void {
  watchers.add(watcher);
  return () => watchers.delete(watcher);
}
