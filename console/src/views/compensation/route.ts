import { IconRadar2 } from "@tabler/icons-react";
import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { root } from "@/app/root";

export const compensationRoute = createRoute({
  getParentRoute: () => root,
  path: "/compensation",
  component: lazyRouteComponent(() => import("./page"), "CompensationPage"),
  staticData: {
    page: { title: (t) => t.compensation.title, icon: IconRadar2, section: "watch", order: 5, letter: "m" },
  },
});
