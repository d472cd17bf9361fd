import { IconMailOff } from "@tabler/icons-react";
import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { root } from "@/app/root";

export interface DeskSearch {
  type?: string;
  lane?: string;
  error?: string;
  /** Dead for at most, or at least, so many seconds. */
  younger_than?: number;
  older_than?: number;
}

export const deskRoute = createRoute({
  getParentRoute: () => root,
  path: "/desk",
  validateSearch: (said: Record<string, unknown>): DeskSearch => ({
    ...text(said, "type"),
    ...text(said, "lane"),
    ...text(said, "error"),
    ...seconds(said, "younger_than"),
    ...seconds(said, "older_than"),
  }),
  component: lazyRouteComponent(() => import("./page"), "DeskPage"),
  staticData: {
    page: { title: (t) => t.desk.title, icon: IconMailOff, section: "steer", order: 2, letter: "d" },
  },
});

function text<K extends string>(said: Record<string, unknown>, name: K): { [key in K]?: string } {
  const value = said[name];
  return (typeof value === "string" || typeof value === "number") && value !== ""
    ? ({ [name]: String(value) } as { [key in K]?: string })
    : {};
}

function seconds<K extends string>(said: Record<string, unknown>, name: K): { [key in K]?: number } {
  const value = said[name];
  return typeof value === "number" && value > 0 ? ({ [name]: value } as { [key in K]?: number }) : {};
}
