import { IconTemplate } from "@tabler/icons-react";
import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { root } from "@/app/root";

export interface TypesSearch {
  /** Part of a code, a name or a category. */
  q?: string;
  /** The type whose form is open. */
  code?: string;
  /** The form of a new one is open. */
  make?: true;
}

export const typesRoute = createRoute({
  getParentRoute: () => root,
  path: "/types",
  validateSearch: (said: Record<string, unknown>): TypesSearch => ({
    ...(typeof said.q === "string" && said.q ? { q: said.q } : {}),
    ...(typeof said.code === "string" && said.code ? { code: said.code } : {}),
    ...(said.make === true ? { make: true } : {}),
  }),
  component: lazyRouteComponent(() => import("./page"), "TypesPage"),
  staticData: {
    page: { title: (t) => t.types.title, icon: IconTemplate, section: "manage", order: 1, letter: "y" },
  },
});
