import { Button } from "@mantine/core";
import { IconPlaylist, IconPlus } from "@tabler/icons-react";
import { useInfiniteQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useSession } from "@/app/session";
import { Empty } from "@/parts/Empty";
import { Page } from "@/parts/Page";
import { Panel } from "@/parts/Panel";
import { ProblemNote } from "@/parts/ProblemNote";
import { Rows } from "@/parts/Rows";
import { may } from "@/services/session";
import { subscriptionsQuery } from "@/services/subscriptions";
import { useTexts } from "@/texts";
import { Cookies } from "./Cookies";
import { NewSubscriptionDialog } from "./NewSubscriptionDialog";
import classes from "./page.module.css";
import { SubscriptionRow } from "./SubscriptionRow";

/** The subscriptions: how much of each is here, and what can be asked of its site. */
export function SubscriptionsPage() {
  const t = useTexts().subscriptions;
  const session = useSession();
  const subscriptions = useInfiniteQuery(subscriptionsQuery);
  const rows = subscriptions.data?.pages.flatMap((page) => page.items) ?? [];
  const [making, setMaking] = useState(false);
  return (
    <Page
      title={t.title}
      about={t.about}
      actions={
        may(session, "submit") ? (
          <Button leftSection={<IconPlus size={14} />} onClick={() => setMaking(true)}>
            {t.make}
          </Button>
        ) : null
      }
    >
      {subscriptions.error ? <ProblemNote error={subscriptions.error} retry={() => subscriptions.refetch()} /> : null}
      {subscriptions.data && rows.length === 0 ? (
        <Empty icon={IconPlaylist} title={t.none}>
          {t.noneAbout}
        </Empty>
      ) : (
        <Panel flush>
          <Rows
            label={t.title}
            cardsBelow={900}
            heads={[
              { text: t.columns.name, plain: true },
              { text: t.columns.downloaded },
              { text: t.columns.expected, number: true },
              { text: t.columns.problems, number: true },
              { text: t.columns.listed },
              { text: t.columns.busy, plain: true },
              { text: "" },
            ]}
          >
            {rows.map((each) => (
              <SubscriptionRow key={each.id} subscription={each} />
            ))}
          </Rows>
        </Panel>
      )}
      {subscriptions.hasNextPage ? (
        <Button
          variant="default"
          className={classes.more}
          loading={subscriptions.isFetchingNextPage}
          onClick={() => void subscriptions.fetchNextPage()}
        >
          {t.moreRows}
        </Button>
      ) : null}
      {may(session, "operator") ? <Cookies /> : null}
      {making ? <NewSubscriptionDialog onClose={() => setMaking(false)} /> : null}
    </Page>
  );
}
