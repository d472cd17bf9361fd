import { IconKey } from "@tabler/icons-react";
import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { root } from "@/app/root";

export const keysRoute = createRoute({
  getParentRoute: () => root,
  path: "/keys",
  component: lazyRouteComponent(() => import("./page"), "KeysPage"),
  staticData: {
    page: { title: (t) => t.keys.title, icon: IconKey, section: "manage", order: 9, letter: "k", role: "admin" },
  },
});
