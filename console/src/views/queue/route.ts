import { IconArrowsSplit2 } from "@tabler/icons-react";
import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { root } from "@/app/root";
import { LANES, type Lane, type RequestFilter, type RequestStatus, SHOWN_AS } from "@/services/requests";

/** Which requests are listed. `/static/queue_admin.html` leads here. */
export const queueRoute = createRoute({
  getParentRoute: () => root,
  path: "/queue",
  validateSearch: (said: Record<string, unknown>): RequestFilter => {
    const found: RequestFilter = {};
    if (LANES.includes(said.lane as Lane)) found.lane = said.lane as Lane;
    if (typeof said.status === "string" && said.status in SHOWN_AS) found.status = said.status as RequestStatus;
    if (typeof said.type === "string" && said.type) found.type = said.type;
    const subscription = Number(said.subscription_id ?? Number.NaN);
    if (Number.isSafeInteger(subscription) && subscription >= 0) found.subscription_id = subscription;
    return found;
  },
  component: lazyRouteComponent(() => import("./page"), "QueuePage"),
  staticData: {
    page: { title: (t) => t.queue.title, icon: IconArrowsSplit2, section: "steer", order: 1, letter: "q" },
  },
});
