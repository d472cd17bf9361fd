import { IconPlaylist } from "@tabler/icons-react";
import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { root } from "@/app/root";

export const subscriptionsRoute = createRoute({
  getParentRoute: () => root,
  path: "/subscriptions",
  component: lazyRouteComponent(() => import("./page"), "SubscriptionsPage"),
  staticData: {
    page: {
      title: (t) => t.subscriptions.title,
      icon: IconPlaylist,
      section: "steer",
      order: 0,
      letter: "s",
      pack: true,
    },
  },
});
