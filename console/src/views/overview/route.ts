import { IconLayoutDashboard } from "@tabler/icons-react";
import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { root } from "@/app/root";

export const overviewRoute = createRoute({
  getParentRoute: () => root,
  path: "/",
  component: lazyRouteComponent(() => import("./page"), "OverviewPage"),
  staticData: {
    page: { title: (t) => t.overview.title, icon: IconLayoutDashboard, section: "watch", order: 1, letter: "o" },
  },
});
