import { events } from "@/views/events/texts.zh";
import { keys } from "@/views/keys/texts.zh";
import { overview } from "@/views/overview/texts.zh";
import { queue } from "@/views/queue/texts.zh";
import { task } from "@/views/task/texts.zh";
import { tasks } from "@/views/tasks/texts.zh";
import type { Texts } from "./en";
import { acts, app, common, login, states } from "./shared.zh";

/** 全部中文文本。 */
export const zh: Texts = { acts, app, common, login, states, events, keys, overview, queue, task, tasks };
