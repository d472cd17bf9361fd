import { overview } from "@/views/overview/texts.zh";
import { tasks } from "@/views/tasks/texts.zh";
import type { Texts } from "./en";
import { app, common, login, states } from "./shared.zh";

/** 全部中文文本。 */
export const zh: Texts = { app, common, login, states, overview, tasks };
