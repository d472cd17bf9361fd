import { compensation } from "@/views/compensation/texts.zh";
import { overview } from "@/views/overview/texts.zh";
import { tasks } from "@/views/tasks/texts.zh";
import type { Texts } from "./en";
import { acts, app, common, login, states } from "./shared.zh";

/** 全部中文文本。 */
export const zh: Texts = { acts, app, common, login, states, overview, tasks, compensation };
