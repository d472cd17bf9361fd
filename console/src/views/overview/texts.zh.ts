import type { Texts } from "@/texts";

export const overview: Texts["overview"] = {
  title: "总览",
};
