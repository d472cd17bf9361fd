import { createRouter } from "@tanstack/react-router";
import { views } from "@/views";
import { NotFound } from "./NotFound";
import { root } from "./root";
import { Shell } from "./Shell";

root.update({ component: Shell, notFoundComponent: NotFound });

export const router = createRouter({
  routeTree: root.addChildren(views),
  defaultPreload: "intent",
  scrollRestoration: true,
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}
