import { heard, silence } from "./reach";
import type { SchemaLiveEvent, SchemaPointOut } from "./schema";

/** One line of the audit, with its task's type and lane (null for an act upon the system). */
export type LiveEvent = SchemaLiveEvent;
export type Figure = SchemaPointOut;
export type LiveState = "connecting" | "live" | "lost";

/** What happened since the last batch; `missed`: something may be missing, so that everything is to be asked again. */
export interface Batch {
  events: LiveEvent[];
  /** Of more events than could be told: whose they were. */
  others: number[];
  missed: boolean;
}

interface Digest {
  events: LiveEvent[];
  left_out: number;
  task_ids: number[];
}

const ADDRESS = "/api/events?gather=0.2";
const MOST_NAMED = 1_000;
const FIRST_WAIT_MS = 1_000;
const LONGEST_WAIT_MS = 15_000;

/**
 * One connection for the whole tab: it hears what happens at the server, gathered into batches.
 *
 * After a loss the browser comes back by itself, behind the last batch that it heard. Where it gives up (the server
 * refused it) we come back anew, and say that something was missed.
 */
export class Live {
  state: LiveState = "connecting";
  private source: EventSource | undefined;
  private again: ReturnType<typeof setTimeout> | undefined;
  private wait = FIRST_WAIT_MS;
  private missed = false;
  private failures = 0;
  private readonly ears = new Set<(batch: Batch) => void>();
  private readonly onFigures = new Set<(figure: Figure) => void>();
  private readonly watchers = new Set<() => void>();

  constructor(private readonly open: () => EventSource = () => new EventSource(ADDRESS)) {}

  start(): void {
    if (this.source) return;
    const source = this.open();
    this.source = source;
    source.onopen = () => this.opened();
    source.onerror = () => {
      this.become("lost");
      this.failures += 1;
      if (this.failures > 1) heard(false); // once: a stream has ended, and begins again
      if (source.readyState === EventSource.CLOSED) this.beginAnew(this.wait * (0.5 + Math.random() / 2));
    };
    source.addEventListener("digest", ({ data }) => this.hear(JSON.parse(data) as Digest));
    source.addEventListener("figure", ({ data }) => {
      for (const ear of this.onFigures) ear(JSON.parse(data) as Figure);
    });
    source.addEventListener("end", ({ data }) => {
      if ((JSON.parse(data) as { reason: string }).reason === "behind") this.beginAnew(0);
    });
  }

  stop(): void {
    clearTimeout(this.again);
    this.source?.close();
    this.source = undefined;
  }

  /** Hear nothing until `start`, and then that something was missed. */
  rest(): void {
    this.missed = true;
    this.stop();
    this.become("connecting");
  }

  /** Call `ear` with each batch. */
  hears(ear: (batch: Batch) => void): () => void {
    this.ears.add(ear);
    return () => this.ears.delete(ear);
  }

  /** Call `ear` with each new point of the charts. */
  figures(ear: (figure: Figure) => void): () => void {
    this.onFigures.add(ear);
    return () => this.onFigures.delete(ear);
  }

  /** Call `watcher` when `state` changes. */
  watch = (watcher: () => void): (() => void) => {
    this.watchers.add(watcher);
    return () => this.watchers.delete(watcher);
  };

  private hear({ events, left_out, task_ids }: Digest): void {
    this.tell({ events, others: task_ids, missed: left_out > 0 && task_ids.length >= MOST_NAMED });
  }

  private tell(batch: Batch): void {
    for (const ear of this.ears) ear(batch);
  }

  private opened(): void {
    this.wait = FIRST_WAIT_MS;
    this.failures = 0;
    this.become("live");
    this.missed ||= silence() !== null; // what was asked meanwhile has failed
    heard(true);
    if (this.missed) this.tell({ events: [], others: [], missed: true });
    this.missed = false;
  }

  private beginAnew(wait: number): void {
    this.wait = Math.min(this.wait * 2, LONGEST_WAIT_MS);
    this.missed = true;
    this.stop();
    this.again = setTimeout(() => this.start(), wait);
  }

  private become(state: LiveState): void {
    if (this.state === state) return;
    this.state = state;
    for (const watcher of this.watchers) watcher();
  }
}
