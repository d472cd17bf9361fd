import { IconLayoutDashboard } from "@tabler/icons-react";
import { createRoute, lazyRouteComponent, redirect } from "@tanstack/react-router";
import { type Said, textIn } from "@/app/address";
import { root } from "@/app/root";

/** How far back the charts go, in seconds. */
export const RANGES = ["900", "3600", "21600", "86400"] as const;
export type Range = (typeof RANGES)[number];

export const USUAL_RANGE: Range = "900";

export interface OverviewSearch {
  range?: Range;
}

/** Lanes have no page of their own; people look for one. */
export const lanesRoute = createRoute({
  getParentRoute: () => root,
  path: "/lanes",
  beforeLoad: () => {
    throw redirect({ to: "/", hash: "lanes" });
  },
});

export const overviewRoute = createRoute({
  getParentRoute: () => root,
  path: "/",
  validateSearch: (said: Said): OverviewSearch => {
    const range = RANGES.find((known) => known === textIn(said.range));
    return range && range !== USUAL_RANGE ? { range } : {};
  },
  component: lazyRouteComponent(() => import("./page"), "OverviewPage"),
  staticData: {
    page: { title: (t) => t.overview.title, icon: IconLayoutDashboard, section: "watch", order: 1, letter: "o" },
  },
});
