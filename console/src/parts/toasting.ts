import type { Tone } from "@/services/states";

/** A few words in the corner of the screen, for a while. */
export interface Toast {
  id: number;
  tone: Tone;
  title?: string;
  text: string;
  /** Takes back what was done. */
  undo?: (() => void) | undefined;
}

const SHOWN_MS: Partial<Record<Tone, number>> = { alarm: 9_000 };
const USUAL_MS = 3_500;
const UNDO_MS = 10_000;
const MOST = 4;
const watchers = new Set<() => void>();
let toasts: readonly Toast[] = [];
let last = 0;

export function toast(said: Omit<Toast, "id">): void {
  last += 1;
  const id = last;
  change([...toasts, { ...said, id }].slice(-MOST));
  setTimeout(() => dismiss(id), said.undo ? UNDO_MS : (SHOWN_MS[said.tone] ?? USUAL_MS));
}

export function dismiss(id: number): void {
  change(toasts.filter((each) => each.id !== id));
}

export function watchToasts(watcher: () => void): () => void {
  watchers.add(watcher);
  return () => watchers.delete(watcher);
}

export function shownToasts(): readonly Toast[] {
  return toasts;
}

function change(next: readonly Toast[]): void {
  toasts = next;
  for (const watcher of watchers) watcher();
}
