import { IconWebhook } from "@tabler/icons-react";
import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { root } from "@/app/root";
import { readSearch } from "./search";

export const callbacksRoute = createRoute({
  getParentRoute: () => root,
  path: "/callbacks",
  validateSearch: readSearch,
  component: lazyRouteComponent(() => import("./page"), "CallbacksPage"),
  staticData: {
    page: { title: (t) => t.callbacks.title, icon: IconWebhook, section: "watch", order: 4, letter: "c" },
  },
});
