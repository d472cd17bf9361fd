import { QueryClient } from "@tanstack/react-query";
import { Problem } from "@/services/problem";

/** What was asked. Nothing is asked again for the sake of time alone: events say when something has changed. */
export const queries = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: Number.POSITIVE_INFINITY,
      gcTime: 60_000,
      refetchOnWindowFocus: false,
      refetchOnReconnect: false,
      refetchOnMount: "always",
      retry: (count, error) => !(error instanceof Problem && error.status >= 400 && error.status < 500) && count < 2,
      structuralSharing: true,
    },
  },
});
