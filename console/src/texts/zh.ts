import { callbacks } from "@/views/callbacks/texts.zh";
import { compensation } from "@/views/compensation/texts.zh";
import { desk } from "@/views/desk/texts.zh";
import { events } from "@/views/events/texts.zh";
import { keys } from "@/views/keys/texts.zh";
import { overview } from "@/views/overview/texts.zh";
import { periodic } from "@/views/periodic/texts.zh";
import { queue } from "@/views/queue/texts.zh";
import { subscriptions } from "@/views/subscriptions/texts.zh";
import { task } from "@/views/task/texts.zh";
import { tasks } from "@/views/tasks/texts.zh";
import { types } from "@/views/types/texts.zh";
import { ends, eventDetails, problems, reasons, refusals, stuck } from "./codes.zh";
import type { Texts } from "./en";
import { pauses } from "./pauses.zh";
import { acts, app, common, login, states } from "./shared.zh";

/** 全部中文文本。 */
export const zh: Texts = {
  acts,
  app,
  common,
  login,
  states,
  ends,
  eventDetails,
  problems,
  reasons,
  refusals,
  stuck,
  pauses,
  events,
  keys,
  overview,
  queue,
  subscriptions,
  task,
  tasks,
  callbacks,
  compensation,
  periodic,
  types,
  desk,
};
