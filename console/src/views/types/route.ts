import { IconTemplate } from "@tabler/icons-react";
import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { present, type Said, textIn } from "@/app/address";
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
  validateSearch: (said: Said): TypesSearch =>
    present({ q: textIn(said.q), code: textIn(said.code), make: said.make === true || undefined }),
  component: lazyRouteComponent(() => import("./page"), "TypesPage"),
  staticData: {
    page: { title: (t) => t.types.title, icon: IconTemplate, section: "manage", order: 1, letter: "y" },
  },
});
