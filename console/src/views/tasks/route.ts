import { IconListDetails } from "@tabler/icons-react";
import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { root } from "@/app/root";

export interface TasksSearch {
  q?: string;
  status?: string[];
  lane?: string;
  type?: string;
}

export const tasksRoute = createRoute({
  getParentRoute: () => root,
  path: "/tasks",
  validateSearch: (said: Record<string, unknown>): TasksSearch => (typeof said.q === "string" ? { q: said.q } : {}),
  component: lazyRouteComponent(() => import("./page"), "TasksPage"),
  staticData: {
    page: { title: (t) => t.tasks.title, icon: IconListDetails, section: "watch", order: 2, letter: "t" },
  },
});
