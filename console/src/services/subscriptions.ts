import { infiniteQueryOptions } from "@tanstack/react-query";
import { answered, api } from "./api";
import { ofTheQueue, type RequestJob } from "./requests";
import type { SchemaDownloadsOut, SchemaSubscriptionIn, SchemaSubscriptionOut } from "./schema";

export type Subscription = SchemaSubscriptionOut;
export type NewSubscription = SchemaSubscriptionIn;
export type Downloads = SchemaDownloadsOut;

const PAGE = 50;

export const subscriptionsQuery = infiniteQueryOptions({
  queryKey: ["subscriptions"],
  queryFn: ({ signal, pageParam }) =>
    answered(
      api.GET("/api/subscriptions", {
        params: { query: { limit: PAGE, ...(pageParam === null ? {} : { cursor: pageParam }) } },
        signal,
      }),
    ),
  initialPageParam: null as number | null,
  getNextPageParam: (last) => last.next_cursor,
  meta: { hears: (event) => event.kind.startsWith("subscription_") || ofTheQueue(event), everyMs: 700, often: true },
});

export function createSubscription(subscription: NewSubscription): Promise<Subscription> {
  return answered(api.POST("/api/subscriptions", { body: subscription }));
}

export function deleteSubscription(id: number): Promise<unknown> {
  return answered(api.DELETE("/api/subscriptions/{subscription_id}", { params: { path: { subscription_id: id } } }));
}

/** What a subscription's buttons ask of its site. `downloadListed` takes the list as it was last fetched. */
export type SubscriptionVerb = "expectedTotal" | "refreshList" | "download" | "downloadListed";

export const SUBSCRIPTION_VERBS: SubscriptionVerb[] = ["expectedTotal", "refreshList", "download", "downloadListed"];

/** Ask it; how many requests are open for that now. */
export async function askSite(id: number, verb: SubscriptionVerb): Promise<number> {
  const path = { subscription_id: id };
  switch (verb) {
    case "expectedTotal":
      return counted(answered(api.GET("/api/subscriptions/{subscription_id}/expected-total", { params: { path } })));
    case "refreshList":
      return counted(answered(api.POST("/api/subscriptions/{subscription_id}/refresh-list", { params: { path } })));
    case "download":
    case "downloadListed": {
      const query = { use_cache_only: verb === "downloadListed" };
      const found = await answered(
        api.POST("/api/subscriptions/{subscription_id}/download", { params: { path, query } }),
      );
      return found.created + found.already_open;
    }
  }
}

async function counted(request: Promise<RequestJob>): Promise<number> {
  await request;
  return 1;
}
