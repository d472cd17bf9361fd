import { queryOptions } from "@tanstack/react-query";
import { answered, api, whileChanging } from "./api";
import type { SchemaKeyOut, SchemaNewKeyIn, SchemaNewKeyOut } from "./schema";
import { type Session, signIn } from "./session";

export type Key = SchemaKeyOut;
export type NewKey = SchemaNewKeyIn;
export type MadeKey = SchemaNewKeyOut;

export const keysQuery = queryOptions({
  queryKey: ["keys"],
  queryFn: async ({ signal }) =>
    (await answered(api.GET("/api/keys", { params: { query: { limit: 200 } }, signal }))).items,
  meta: { hears: (event) => event.kind.startsWith("key_") },
});

export function makeKey(key: NewKey): Promise<MadeKey> {
  return answered(api.POST("/api/keys", { body: key }));
}

/** After the first key every request needs one, so its creator is signed in with it at once. */
export function makeFirstKey(key: NewKey): Promise<{ made: MadeKey; session: Session }> {
  return whileChanging(async () => {
    const made = await makeKey(key);
    return { made, session: await signIn(made.key) };
  });
}

export function revokeKey(id: number): Promise<unknown> {
  return answered(api.DELETE("/api/keys/{key_id}", { params: { path: { key_id: id } } }));
}
