import { SegmentedControl } from "@mantine/core";
import { useNavigate } from "@tanstack/react-router";
import { useSession } from "@/app/session";
import { Page } from "@/parts/Page";
import { PauseEverything } from "@/parts/PauseEverything";
import { maySteer } from "@/services/session";
import { useTexts } from "@/texts";
import { Broker } from "./Broker";
import { Charts } from "./Charts";
import { Lanes } from "./Lanes";
import { Needs } from "./Needs";
import { Pauses } from "./Pauses";
import classes from "./page.module.css";
import { Resources } from "./Resources";
import { overviewRoute, RANGES, type Range, USUAL_RANGE } from "./route";
import { Types } from "./Types";
import { Workers } from "./Workers";

export function OverviewPage() {
  const t = useTexts().overview;
  const session = useSession();
  const { range = USUAL_RANGE } = overviewRoute.useSearch();
  const navigate = useNavigate();
  return (
    <Page
      title={t.title}
      actions={
        <>
          {session.tenant_id === null ? (
            <SegmentedControl
              aria-label={t.range}
              value={range}
              onChange={(next) => void navigate({ to: "/", search: { range: next as Range } })}
              data={RANGES.map((value) => ({ value, label: t.ranges[value] ?? value }))}
            />
          ) : null}
          {maySteer(session) ? <PauseEverything /> : null}
        </>
      }
    >
      <Needs />
      {session.tenant_id === null ? <Charts seconds={Number(range)} /> : null}
      <div className={classes.columns}>
        <div className={classes.stack}>
          <Lanes />
          <Resources />
          <Pauses />
        </div>
        <div className={classes.stack}>
          <Workers />
          {session.tenant_id === null ? <Broker /> : null}
          <Types />
        </div>
      </div>
    </Page>
  );
}
