import { callbacksRoute } from "./callbacks/route";
import { compensationRoute } from "./compensation/route";
import { deskRoute } from "./desk/route";
import { eventsRoute } from "./events/route";
import { keysRoute } from "./keys/route";
import { lanesRoute, overviewRoute } from "./overview/route";
import { periodicRoute } from "./periodic/route";
import { queueRoute } from "./queue/route";
import { subscriptionsRoute } from "./subscriptions/route";
import { taskRoute } from "./task/route";
import { tasksRoute } from "./tasks/route";
import { typesRoute } from "./types/route";

/** Every page: a folder each, and one line here. */
export const views = [
  overviewRoute,
  lanesRoute,
  tasksRoute,
  taskRoute,
  queueRoute,
  subscriptionsRoute,
  eventsRoute,
  keysRoute,
  callbacksRoute,
  compensationRoute,
  periodicRoute,
  typesRoute,
  deskRoute,
] as const;
