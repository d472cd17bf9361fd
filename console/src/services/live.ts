import type { SchemaEventOut } from "./schema";

/** One line of the audit, with its task's type and lane (null for an act upon the system). */
export type LiveEvent = SchemaEventOut & { type: string | null; lane: string | null };
export type LiveState = "connecting" | "live" | "lost";

/** What happened since the last batch; `missed`: something may be missing, so that everything is to be asked again. */
export interface Batch {
  events: LiveEvent[];
  missed: boolean;
}

const GATHER_MS = 200;
const MOST_GATHERED = 5_000;
const FIRST_WAIT_MS = 1_000;
const LONGEST_WAIT_MS = 15_000;

/**
 * One connection for the whole tab: it hears what happens at the server and tells it in batches.
 *
 * After a loss the browser comes back by itself, behind the last event that it heard. Where it gives up (the server
 * refused it) we come back anew, and say that something was missed.
 */
export class Live {
  state: LiveState = "connecting";
  private source: EventSource | undefined;
  private gathered: Batch = { events: [], missed: false };
  private gathering: ReturnType<typeof setTimeout> | undefined;
  private again: ReturnType<typeof setTimeout> | undefined;
  private wait = FIRST_WAIT_MS;
  private readonly ears = new Set<(batch: Batch) => void>();
  private readonly watchers = new Set<() => void>();

  constructor(private readonly open: () => EventSource = () => new EventSource("/api/events")) {}

  start(): void {
    if (this.source) return;
    const source = this.open();
    this.source = source;
    source.onopen = () => {
      this.wait = FIRST_WAIT_MS;
      this.become("live");
    };
    source.onmessage = (message) => this.hear(JSON.parse(message.data) as LiveEvent);
    source.addEventListener("end", (message) => this.heardTheEnd(JSON.parse(message.data) as { reason: string }));
    source.onerror = () => {
      this.become("lost");
      if (source.readyState === EventSource.CLOSED) this.beginAnew(this.wait * (0.5 + Math.random() / 2));
    };
  }

  stop(): void {
    clearTimeout(this.again);
    clearTimeout(this.gathering);
    this.gathering = undefined;
    this.source?.close();
    this.source = undefined;
  }

  /** Call `ear` with each batch. */
  hears(ear: (batch: Batch) => void): () => void {
    this.ears.add(ear);
    return () => this.ears.delete(ear);
  }

  /** Call `watcher` when `state` changes. */
  watch = (watcher: () => void): (() => void) => {
    this.watchers.add(watcher);
    return () => this.watchers.delete(watcher);
  };

  private hear(event: LiveEvent): void {
    this.gathered.events.push(event);
    if (this.gathered.events.length > MOST_GATHERED) this.gathered = { events: [], missed: true };
    this.soon();
  }

  /** More happens than we can hear: leave it out, and ask for how everything stands instead. */
  private heardTheEnd({ reason }: { reason: string }): void {
    if (reason === "behind") this.beginAnew(0);
  }

  private beginAnew(wait: number): void {
    this.wait = Math.min(this.wait * 2, LONGEST_WAIT_MS);
    this.source?.close();
    this.source = undefined;
    this.gathered = { events: [], missed: true };
    clearTimeout(this.again);
    this.again = setTimeout(() => this.start(), wait);
  }

  private soon(): void {
    this.gathering ??= setTimeout(() => {
      this.gathering = undefined;
      const batch = this.gathered;
      this.gathered = { events: [], missed: false };
      for (const ear of this.ears) ear(batch);
    }, GATHER_MS);
  }

  private become(state: LiveState): void {
    if (state === "live" && this.gathered.missed) this.soon();
    if (this.state === state) return;
    this.state = state;
    for (const watcher of this.watchers) watcher();
  }
}
