import { IconArrowsSplit2 } from "@tabler/icons-react";
import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { present, type Said, textIn, wholeIn, wordIn } from "@/app/address";
import { root } from "@/app/root";
import { LANES, type RequestFilter, SHOWN_AS } from "@/services/requests";

/** Which requests are listed. `/static/queue_admin.html` leads here. */
export const queueRoute = createRoute({
  getParentRoute: () => root,
  path: "/queue",
  validateSearch: (said: Said): RequestFilter =>
    present({
      lane: LANES.find((known) => known === said.lane),
      status: wordIn(said.status, SHOWN_AS),
      type: textIn(said.type),
      subscription_id: wholeIn(said.subscription_id, 0),
    }),
  component: lazyRouteComponent(() => import("./page"), "QueuePage"),
  staticData: {
    page: { title: (t) => t.queue.title, icon: IconArrowsSplit2, section: "steer", order: 1, letter: "q", pack: true },
  },
});
