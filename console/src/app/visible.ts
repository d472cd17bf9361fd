import { may, type Session } from "@/services/session";
import type { PageInfo } from "./root";

export function mayOpen(page: PageInfo, session: Session): boolean {
  return page.role === undefined || may(session, page.role);
}
