import { IconMailOff } from "@tabler/icons-react";
import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { present, type Said, secondsIn, textIn } from "@/app/address";
import { root } from "@/app/root";

export interface DeskSearch {
  type?: string;
  lane?: string;
  error?: string;
  /** Dead for at most, or at least, this many seconds. */
  younger_than?: number;
  older_than?: number;
}

export const deskRoute = createRoute({
  getParentRoute: () => root,
  path: "/desk",
  validateSearch: (said: Said): DeskSearch =>
    present({
      type: textIn(said.type),
      lane: textIn(said.lane),
      error: textIn(said.error),
      younger_than: secondsIn(said.younger_than),
      older_than: secondsIn(said.older_than),
    }),
  component: lazyRouteComponent(() => import("./page"), "DeskPage"),
  staticData: {
    page: { title: (t) => t.desk.title, icon: IconMailOff, section: "steer", order: 2, letter: "d" },
  },
});
