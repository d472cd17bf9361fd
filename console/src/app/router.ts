import { createRouter } from "@tanstack/react-router";
import { views } from "@/views";
import { Broken } from "./Broken";
import { NotFound } from "./NotFound";
import { root } from "./root";
import { Shell } from "./Shell";

root.update({ component: Shell, notFoundComponent: NotFound });

export const router = createRouter({
  routeTree: root.addChildren(views),
  defaultPreload: "intent",
  defaultErrorComponent: Broken, // in the place of the page, within the shell
  search: { strict: true }, // what no page knows does not stay in the address, nor reach a page
  scrollRestoration: true,
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}
