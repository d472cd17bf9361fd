import { createRootRoute } from "@tanstack/react-router";
import type { ComponentType } from "react";
import type { Role } from "@/services/session";
import type { Texts } from "@/texts";

/** What the shell has to know of a page to lead people to it. */
export interface PageInfo {
  title: (t: Texts) => string;
  icon: ComponentType<{ size?: number | string; stroke?: number | string }>;
  section: "watch" | "steer" | "manage";
  /** Its place among the pages of its section. */
  order: number;
  /** The letter behind `g` that leads to it. */
  letter: string;
  /** The role that may see it; without one, every role. */
  role?: Role;
  /** It is a pack's: there only where the server has the pack on. */
  pack?: boolean;
}

declare module "@tanstack/react-router" {
  interface StaticDataRouteOption {
    page?: PageInfo;
  }
}

/** The root of all pages. Pages name it as their parent; the shell around them is put in by the router. */
export const root = createRootRoute();
