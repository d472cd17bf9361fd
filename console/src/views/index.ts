import { callbacksRoute } from "./callbacks/route";
import { compensationRoute } from "./compensation/route";
import { overviewRoute } from "./overview/route";
import { periodicRoute } from "./periodic/route";
import { taskRoute } from "./task/route";
import { tasksRoute } from "./tasks/route";
import { typesRoute } from "./types/route";

/** Every page: a folder each, and one line here. */
export const views = [
  overviewRoute,
  tasksRoute,
  taskRoute,
  compensationRoute,
  callbacksRoute,
  periodicRoute,
  typesRoute,
] as const;
