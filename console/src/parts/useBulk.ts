import { useEffect, useRef, useState } from "react";
import { inCalls } from "@/services/bulk";

export interface Bulk<T> {
  /** The results of the tasks that were reached. */
  done: T[];
  of: number;
  running: boolean;
  /** It has ended, was stopped, or broke off. */
  over: boolean;
  /** It ends when the call that is under way has been answered. */
  stopping: boolean;
  error: unknown;
  start: (ids: number[]) => void;
  stop: () => void;
}

const NOTHING = { done: [], of: 0, running: false, over: false, stopping: false, error: undefined };

/** Do something to many tasks while somebody looks on; when they leave the page, no further call is made. */
export function useBulk<T>(call: (ids: number[]) => Promise<T[]>, onEnd: (done: T[]) => void = () => {}): Bulk<T> {
  const [state, setState] = useState<Omit<Bulk<T>, "start" | "stop">>(NOTHING);
  const stopping = useRef(new AbortController());
  useEffect(() => () => stopping.current.abort(), []);
  const start = (ids: number[]) => {
    stopping.current = new AbortController();
    const { signal } = stopping.current;
    setState({ ...NOTHING, of: ids.length, running: true });
    const tell = (done: T[]) => setState((before) => ({ ...before, done }));
    void inCalls(ids, call, tell, signal)
      .then((done) => done.length === ids.length && onEnd(done))
      .catch((error) => setState((before) => ({ ...before, error })))
      .finally(() => setState((before) => ({ ...before, running: false, over: true })));
  };
  const stop = () => {
    stopping.current.abort();
    setState((before) => ({ ...before, stopping: true }));
  };
  return { ...state, start, stop };
}
