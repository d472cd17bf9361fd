import { may, type Session } from "@/services/session";
import type { PageInfo } from "./root";

export interface Place extends PageInfo {
  to: string;
}

export function mayOpen(place: Place, session: Session): boolean {
  return isThere(place, session) && (place.role === undefined || may(session, place.role));
}

/** A page of a pack is there only where the server says so. */
export function isThere(place: Place, session: Session): boolean {
  return !place.pack || session.pages.some((page) => page.path === place.to);
}
