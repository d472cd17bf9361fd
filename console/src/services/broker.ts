import { queryOptions } from "@tanstack/react-query";
import { answered, api } from "./api";
import { anything } from "./refresh";
import type { SchemaBrokerOut } from "./schema";

export type Broker = SchemaBrokerOut;

const EVERY_MS = 5_000;

/** How the broker is doing. That it went away, or came back, is no event: while there is one it is asked now and then. */
export const brokerQuery = queryOptions({
  queryKey: ["broker"],
  queryFn: ({ signal }) => answered(api.GET("/api/broker", { signal })),
  refetchInterval: ({ state }) => (state.data?.configured ? EVERY_MS : false),
  meta: { hears: anything, everyMs: 2_000 },
});
