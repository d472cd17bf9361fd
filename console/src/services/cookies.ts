import { queryOptions } from "@tanstack/react-query";
import { answered, api } from "./api";
import type { SchemaCookieOut } from "./schema";

/** A site's cookie. What is in it goes to the server and never comes back. */
export type SiteCookie = SchemaCookieOut;

export const cookiesQuery = queryOptions({
  queryKey: ["cookies"],
  queryFn: async ({ signal }) => (await answered(api.GET("/api/cookies", { signal }))).items,
  meta: { hears: (event) => event.kind.startsWith("cookie_") },
});

export function putCookie(site: string, content: string): Promise<SiteCookie> {
  return answered(api.PUT("/api/cookies/{site}", { params: { path: { site } }, body: { content } }));
}

export function enableCookie({ site, tenant_id }: SiteCookie): Promise<SiteCookie> {
  return answered(api.POST("/api/cookies/{site}/enable", { params: { path: { site }, query: { tenant_id } } }));
}

export function deleteCookie({ site, tenant_id }: SiteCookie): Promise<unknown> {
  return answered(api.DELETE("/api/cookies/{site}", { params: { path: { site }, query: { tenant_id } } }));
}
