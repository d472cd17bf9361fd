import { IconActivity } from "@tabler/icons-react";
import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { present, type Said, textIn } from "@/app/address";
import { root } from "@/app/root";

export interface EventsSearch {
  /** Words that must stand in an event. */
  q?: string;
}

export const eventsRoute = createRoute({
  getParentRoute: () => root,
  path: "/events",
  validateSearch: (said: Said): EventsSearch => present({ q: textIn(said.q) }),
  component: lazyRouteComponent(() => import("./page"), "EventsPage"),
  staticData: {
    page: { title: (t) => t.events.title, icon: IconActivity, section: "watch", order: 3, letter: "e" },
  },
});
