import { callbacks } from "@/views/callbacks/texts.en";
import { compensation } from "@/views/compensation/texts.en";
import { desk } from "@/views/desk/texts.en";
import { events } from "@/views/events/texts.en";
import { keys } from "@/views/keys/texts.en";
import { overview } from "@/views/overview/texts.en";
import { periodic } from "@/views/periodic/texts.en";
import { queue } from "@/views/queue/texts.en";
import { subscriptions } from "@/views/subscriptions/texts.en";
import { task } from "@/views/task/texts.en";
import { tasks } from "@/views/tasks/texts.en";
import { types } from "@/views/types/texts.en";
import { ends, eventDetails, problems, reasons, refusals, stuck } from "./codes.en";
import { pauses } from "./pauses.en";
import { acts, app, common, login, states } from "./shared.en";

/** Every text in English. Each page keeps its own beside it and adds one line here. */
export const en = {
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

/** What every language has to say: a text that is missing in one does not compile. */
export type Texts = typeof en;
