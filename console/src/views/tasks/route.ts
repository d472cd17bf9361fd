import { IconListDetails } from "@tabler/icons-react";
import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { root } from "@/app/root";
import { searchOf } from "./search";

export const tasksRoute = createRoute({
  getParentRoute: () => root,
  path: "/tasks",
  validateSearch: searchOf,
  component: lazyRouteComponent(() => import("./page"), "TasksPage"),
  staticData: {
    page: { title: (t) => t.tasks.title, icon: IconListDetails, section: "watch", order: 2, letter: "t" },
  },
});
