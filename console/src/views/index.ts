import { compensationRoute } from "./compensation/route";
import { overviewRoute } from "./overview/route";
import { taskRoute } from "./task/route";
import { tasksRoute } from "./tasks/route";

/** Every page: a folder each, and one line here. */
export const views = [overviewRoute, tasksRoute, taskRoute, compensationRoute] as const;
