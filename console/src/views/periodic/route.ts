import { IconCalendarRepeat } from "@tabler/icons-react";
import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { root } from "@/app/root";
import type { ScheduleStatus } from "@/services/periodic";

export interface PeriodicSearch {
  status?: ScheduleStatus;
  type?: string;
  /** The schedule that is open. */
  id?: number;
  /** A form is open: for a new one, or for the one that is open. */
  edit?: "new" | "this";
}

const STATUSES: Record<ScheduleStatus, true> = { new: true, online: true, offline: true };

export const periodicRoute = createRoute({
  getParentRoute: () => root,
  path: "/periodic",
  validateSearch: (said: Record<string, unknown>): PeriodicSearch => ({
    ...(typeof said.status === "string" && said.status in STATUSES ? { status: said.status as ScheduleStatus } : {}),
    ...(typeof said.type === "string" && said.type ? { type: said.type } : {}),
    ...(Number.isSafeInteger(said.id) && Number(said.id) > 0 ? { id: Number(said.id) } : {}),
    ...(said.edit === "new" || said.edit === "this" ? { edit: said.edit } : {}),
  }),
  component: lazyRouteComponent(() => import("./page"), "PeriodicPage"),
  staticData: {
    page: { title: (t) => t.periodic.title, icon: IconCalendarRepeat, section: "steer", order: 3, letter: "p" },
  },
});
