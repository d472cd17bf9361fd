import { useQueryClient } from "@tanstack/react-query";
import { createContext, type ReactNode, useContext, useEffect, useState, useSyncExternalStore } from "react";
import { type Batch, type Figure, Live, type LiveState } from "@/services/live";
import { keepFresh } from "@/services/refresh";

const REST_AFTER_MS = 60_000;
const Context = createContext<Live | null>(null);

export function LiveProvider({ children }: { children: ReactNode }) {
  const client = useQueryClient();
  const [live] = useState(() => new Live());
  useEffect(() => {
    const done = keepFresh(client, live);
    live.start();
    // A browser has few connections for one server: a hidden tab closes its own.
    let resting: ReturnType<typeof setTimeout> | undefined;
    const look = () => {
      clearTimeout(resting);
      if (document.hidden) resting = setTimeout(() => live.rest(), REST_AFTER_MS);
      else live.start();
    };
    document.addEventListener("visibilitychange", look);
    return () => {
      document.removeEventListener("visibilitychange", look);
      clearTimeout(resting);
      live.stop();
      done();
    };
  }, [client, live]);
  return <Context value={live}>{children}</Context>;
}

function useLive(): Live {
  const live = useContext(Context);
  if (!live) throw new Error("no LiveProvider");
  return live;
}

/** Whether this tab hears what happens. */
export function useLiveState(): LiveState {
  const live = useLive();
  return useSyncExternalStore(live.watch, () => live.state);
}

/** Call `ear` with each new point of the charts. Keep `ear` stable. */
export function useFigures(ear: (figure: Figure) => void): void {
  const live = useLive();
  useEffect(() => live.figures(ear), [live, ear]);
}

/** Call `ear` with each batch of events, as long as the component is there. Keep `ear` stable (useCallback). */
export function useEvents(ear: (batch: Batch) => void): void {
  const live = useLive();
  useEffect(() => live.hears(ear), [live, ear]);
}
