import type { LiveEvent } from "@/services/live";

export const MOST = 300;

/** Events newest first, each once, with later ones before them; the oldest fall out. */
export function withMore(known: LiveEvent[], later: LiveEvent[]): LiveEvent[] {
  const ids = new Set(known.map((event) => event.id));
  const fresh = later.filter((event) => !ids.has(event.id));
  return fresh.length === 0 ? known : [...fresh, ...known].sort((a, b) => b.id - a.id).slice(0, MOST);
}

/** Whether every word of `q` stands somewhere in an event. */
export function matches(event: LiveEvent, q: string): boolean {
  const text = [event.kind, event.type, event.lane, event.actor, event.detail, event.to, `#${event.task_id}`]
    .join(" ")
    .toLowerCase();
  return q
    .toLowerCase()
    .split(/\s+/)
    .every((word) => text.includes(word));
}
