import type { Query, QueryClient } from "@tanstack/react-query";
import type { Batch, Live, LiveEvent } from "./live";
import { sessionQuery } from "./session";

declare module "@tanstack/react-query" {
  interface Register {
    queryMeta: {
      /** Whether an event changes what this query shows. Left out: none does. */
      hears?: (event: LiveEvent) => boolean;
      /** How often it may be asked again for that, at most; 1,000 ms if it does not say. */
      everyMs?: number;
      /** While there is no connection it is asked every two seconds, in place of every ten. */
      often?: boolean;
    };
  }
}

const EVERY_MS = 1_000;
const OFTEN_MS = 2_000;
const OFTEN_PER_POLL = 5;

/** Something happened to a task. */
export const anyTask = (event: LiveEvent): boolean => event.task_id !== null;
/** Somebody changed the system: a lane, a limit, a type, a key, a schedule. */
export const anyAct = (event: LiveEvent): boolean => event.task_id === null;
export const anything = (): boolean => true;

/**
 * Keep what is on the screen true: each query says by its `meta` which events it hears, and is asked again after one.
 * Only while there is no connection is everything asked every ten seconds, and some of it every two.
 */
export function keepFresh(client: QueryClient, live: Live): () => void {
  const refresher = new Refresher(client);
  const unhear = live.hears((batch) => refresher.hear(batch));
  let poll: ReturnType<typeof setInterval> | undefined;
  const look = () => {
    clearInterval(poll);
    if (live.state !== "lost") return;
    let looks = 0;
    poll = setInterval(() => {
      looks += 1;
      if (looks % OFTEN_PER_POLL === 0) refresher.everything();
      else refresher.often();
    }, OFTEN_MS);
    // It may be that we were sent away: the key was revoked, or the session is over.
    void client.invalidateQueries({ queryKey: sessionQuery.queryKey });
  };
  const unwatch = live.watch(look);
  return () => {
    unhear();
    unwatch();
    clearInterval(poll);
    refresher.stop();
  };
}

/** Something happened to a task; what is unknown. */
function unknownEvent(taskId: number): LiveEvent {
  const nothing = {
    code: "",
    params: {},
    from: null,
    to: null,
    exec_id: null,
    correlation_id: null,
    detail: null,
    type: null,
    lane: null,
  };
  return { ...nothing, id: 0, task_id: taskId, tenant_id: 0, seq: 0, at: "", kind: "", actor: "" };
}

class Refresher {
  private readonly askedAt = new Map<string, number>();
  private readonly due = new Map<string, ReturnType<typeof setTimeout>>();

  constructor(private readonly client: QueryClient) {}

  hear(batch: Batch): void {
    if (batch.missed) {
      this.everything();
      return;
    }
    for (const query of this.client.getQueryCache().getAll()) {
      const hears = query.meta?.hears;
      if (hears && (batch.events.some(hears) || batch.others.some((id) => hears(unknownEvent(id))))) this.ask(query);
    }
  }

  everything(): void {
    void this.client.invalidateQueries();
  }

  /** What is to be asked often. */
  often(): void {
    void this.client.invalidateQueries({ predicate: (query) => query.meta?.often === true });
  }

  stop(): void {
    for (const timer of this.due.values()) clearTimeout(timer);
  }

  /** At once, if it was not asked lately; else as soon as it may be, and is not being asked any more. */
  private ask(query: Query): void {
    const key = query.queryHash;
    if (this.due.has(key)) return;
    const every = query.meta?.everyMs ?? EVERY_MS;
    const wait = Math.max(0, (this.askedAt.get(key) ?? Number.NEGATIVE_INFINITY) + every - Date.now());
    this.due.set(
      key,
      setTimeout(() => {
        this.due.delete(key);
        this.askedAt.set(key, Date.now());
        if (query.state.fetchStatus === "fetching") this.ask(query);
        else void this.client.invalidateQueries({ queryKey: query.queryKey, exact: true });
      }, wait),
    );
  }
}
