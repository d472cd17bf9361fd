import { eventsRoute } from "./events/route";
import { keysRoute } from "./keys/route";
import { overviewRoute } from "./overview/route";
import { queueRoute } from "./queue/route";
import { taskRoute } from "./task/route";
import { tasksRoute } from "./tasks/route";

/** Every page: a folder each, and one line here. */
export const views = [overviewRoute, tasksRoute, taskRoute, eventsRoute, queueRoute, keysRoute] as const;
