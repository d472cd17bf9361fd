import { IconCalendarRepeat } from "@tabler/icons-react";
import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { present, type Said, textIn, wholeIn, wordIn } from "@/app/address";
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
const EDITS = { new: true, this: true };

export const periodicRoute = createRoute({
  getParentRoute: () => root,
  path: "/periodic",
  validateSearch: (said: Said): PeriodicSearch =>
    present({
      status: wordIn(said.status, STATUSES),
      type: textIn(said.type),
      id: wholeIn(said.id, 1),
      edit: wordIn(said.edit, EDITS),
    }),
  component: lazyRouteComponent(() => import("./page"), "PeriodicPage"),
  staticData: {
    page: { title: (t) => t.periodic.title, icon: IconCalendarRepeat, section: "steer", order: 3, letter: "p" },
  },
});
