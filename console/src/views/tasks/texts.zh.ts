import type { Texts } from "@/texts";

export const tasks: Texts["tasks"] = {
  title: "任务",
};
