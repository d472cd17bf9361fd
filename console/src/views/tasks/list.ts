import type { Batch } from "@/services/live";
import type { Task } from "@/services/tasks";

export interface PageOfTasks {
  items: Task[];
  next_cursor: number | null;
}

/** Tasks below `cursor` (null: from the newest on), at most `limit`. */
export type Fetch = (cursor: number | null, limit: number) => Promise<PageOfTasks>;

export interface Shown {
  rows: readonly Task[];
  /** There are more behind the last row. */
  more: boolean;
  loading: boolean;
  error: unknown;
  /** How many were made since, while we were not at the top. */
  fresh: number;
}

const PAGE = 100;
const ENOUGH = 50; // a page may hold few rows, or none: the server examines a limited number of tasks at a time
const MOST_PAGES_ABOVE = 5;
const EVERY_MS = 1_000;

/**
 * The part of a list of tasks that was looked at, however long the list is, kept true while it is on the screen.
 *
 * It never counts: it knows the rows it has read, newest first, and whether there are more behind them. A page that is
 * read again takes the place of what was known between its first and its last id.
 */
export class TaskList {
  private rows: Task[] = [];
  private end: number | null | undefined; // undefined: nothing was read yet
  private readonly readAt = new Map<number, number>(); // id → what number of event it was read after
  private heard = 0;
  private fresh = new Set<number>();
  private atTop = true;
  private visible: [number, number] = [0, 0];
  private busy = false;
  private error: unknown;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private ended = false;
  private shown: Shown = { rows: [], more: true, loading: true, error: undefined, fresh: 0 };
  private readonly watchers = new Set<() => void>();

  constructor(
    private readonly fetch: Fetch,
    private readonly everyMs = EVERY_MS,
  ) {}

  snapshot = (): Shown => this.shown;

  watch = (watcher: () => void): (() => void) => {
    this.watchers.add(watcher);
    return () => this.watchers.delete(watcher);
  };

  begin(): void {
    this.ended = false;
    void this.more();
  }

  stop(): void {
    this.ended = true;
    clearTimeout(this.timer);
    this.timer = undefined;
  }

  /** Read on behind the last row, or begin: until there is something new to show, or the end. */
  async more(): Promise<void> {
    if (this.busy || this.end === null) return;
    await this.work(async () => {
      const before = this.rows.length;
      do await this.read(this.end ?? null, PAGE);
      while (this.end !== null && this.rows.length < before + ENOUGH && !this.ended);
    });
  }

  /** Look again from the newest on. */
  async top(): Promise<void> {
    if (this.busy) return;
    await this.work(() => this.readTop());
  }

  /** These rows are on the screen. */
  look(first: number, last: number, atTop: boolean): void {
    this.visible = [first, last];
    this.atTop = atTop;
    if (this.isStale() || (atTop && this.fresh.size > 0)) this.soon();
  }

  /** Something happened: what is known changes at once, the rest is asked for soon. */
  hear(batch: Batch): void {
    this.heard += 1;
    const changed = new Map<number, string>();
    for (const event of batch.events) {
      if (event.task_id === null) continue;
      if (event.kind === "submitted" && event.task_id > (this.rows[0]?.id ?? 0)) this.fresh.add(event.task_id);
      if (event.to) changed.set(event.task_id, event.to);
    }
    if (changed.size > 0 && this.rows.some((row) => changed.has(row.id))) {
      this.rows = this.rows.map((row) => {
        const status = changed.get(row.id);
        return status && status !== row.status ? { ...row, status } : row;
      });
    }
    this.tell();
    this.soon();
  }

  private isStale(): boolean {
    const [first, last] = this.visible;
    return this.rows.slice(first, last + 1).some((row) => (this.readAt.get(row.id) ?? 0) < this.heard);
  }

  private soon(): void {
    if (this.timer !== undefined || this.ended) return;
    this.timer = setTimeout(() => {
      this.timer = undefined;
      void this.refresh();
    }, this.everyMs);
  }

  private async refresh(): Promise<void> {
    if (this.busy) {
      this.soon();
      return;
    }
    if (this.atTop || this.rows.length === 0) await this.work(() => this.readTop());
    else if (this.isStale()) await this.work(() => this.readVisible());
  }

  private async readTop(): Promise<void> {
    const known = this.rows[0]?.id;
    let cursor: number | null = null;
    for (let pages = 0; pages < MOST_PAGES_ABOVE; pages += 1) {
      cursor = await this.read(cursor, PAGE);
      if (cursor === null || known === undefined || cursor <= known) {
        this.fresh.clear();
        return;
      }
    }
    // More came than we can read in between: what was known before is left out, and read again when it is reached.
    this.rows = this.rows.filter((row) => row.id >= (cursor ?? 0));
    this.end = cursor;
    this.fresh.clear();
  }

  private async readVisible(): Promise<void> {
    const [first, last] = this.visible;
    const newest = this.rows[Math.max(0, first - 10)];
    if (newest) await this.read(newest.id + 1, Math.min(200, last - first + 30));
  }

  /** Read a page and put it in its place; where the next one begins. */
  private async read(cursor: number | null, limit: number): Promise<number | null> {
    const heard = this.heard;
    const page = await this.fetch(cursor, limit);
    const lowest = page.next_cursor ?? Number.NEGATIVE_INFINITY;
    const highest = cursor ?? Number.POSITIVE_INFINITY;
    const above = this.rows.filter((row) => row.id >= highest);
    const below = this.rows.filter((row) => row.id < lowest);
    this.rows = [...above, ...page.items, ...below];
    for (const row of page.items) this.readAt.set(row.id, heard);
    if (below.length === 0) this.end = page.next_cursor;
    return page.next_cursor;
  }

  private async work(doing: () => Promise<unknown>): Promise<void> {
    this.busy = true;
    this.tell();
    try {
      await doing();
      this.error = undefined;
    } catch (error) {
      this.error = error;
    } finally {
      this.busy = false;
      this.tell();
    }
  }

  private tell(): void {
    if (this.ended) return;
    this.shown = {
      rows: this.rows,
      more: this.end !== null,
      loading: this.end === undefined && this.error === undefined,
      error: this.error,
      fresh: this.fresh.size,
    };
    for (const watcher of this.watchers) watcher();
  }
}
