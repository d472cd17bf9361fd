import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { root } from "@/app/root";

export const taskRoute = createRoute({
  getParentRoute: () => root,
  path: "/tasks/$taskId",
  component: lazyRouteComponent(() => import("./page"), "TaskPage"),
});
