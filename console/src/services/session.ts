import { queryOptions } from "@tanstack/react-query";
import { answered, api } from "./api";
import { Problem } from "./problem";
import type { SchemaSessionOut } from "./schema";

export type Session = SchemaSessionOut;
export type Role = Session["role"];

/** Who we are to the server; null: it wants a key first. */
export const sessionQuery = queryOptions({
  queryKey: ["session"],
  queryFn: async ({ signal }): Promise<Session | null> => {
    try {
      return await answered(api.GET("/api/session", { signal }));
    } catch (error) {
      if (error instanceof Problem && error.status === 401) return null;
      throw error;
    }
  },
  staleTime: 60_000,
});

/** Change a key for a session: the key itself is kept nowhere. */
export function signIn(key: string): Promise<Session> {
  return answered(api.POST("/api/session", { headers: { Authorization: `Bearer ${key.trim()}` } }));
}

export function signOut(): Promise<unknown> {
  return answered(api.DELETE("/api/session"));
}

const STEPS: Role[] = ["read", "submit", "agent", "operator", "admin"];

/** Whether somebody may do what needs `role`. */
export function may(session: Session, role: Role): boolean {
  return STEPS.indexOf(session.role) >= STEPS.indexOf(role);
}

/** What all tenants share may be changed by no tenant's key. */
export function maySteer(session: Session): boolean {
  return may(session, "operator") && session.tenant_id === null;
}
