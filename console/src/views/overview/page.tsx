import { Button, SegmentedControl } from "@mantine/core";
import { IconPlayerPause, IconPlayerPlay } from "@tabler/icons-react";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useSession } from "@/app/session";
import { useAsk } from "@/parts/Ask";
import { Page } from "@/parts/Page";
import { complain, confirmDone } from "@/parts/problems";
import { lanesQuery, pauseEverything } from "@/services/lanes";
import { maySteer } from "@/services/session";
import { useTexts } from "@/texts";
import { Charts } from "./Charts";
import { Lanes } from "./Lanes";
import { Needs } from "./Needs";
import classes from "./page.module.css";
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
        <Lanes />
        <div className={classes.stack}>
          <Workers />
          <Types />
        </div>
      </div>
    </Page>
  );
}

function PauseEverything() {
  const t = useTexts();
  const ask = useAsk();
  const { data } = useQuery(lanesQuery);
  const paused = data?.everything_paused ?? false;
  const change = useMutation({
    mutationFn: () => pauseEverything(!paused),
    onSuccess: () => confirmDone(paused ? t.overview.resumedAll : t.overview.pausedAll),
    onError: (error) => complain(error, t),
  });
  const label = paused ? t.overview.resumeAll : t.overview.pauseAll;
  const start = async () => {
    if (paused || (await ask({ title: label, body: t.overview.pauseAllAsk, yes: label }))) change.mutate();
  };
  return (
    <Button
      variant="default"
      leftSection={paused ? <IconPlayerPlay size={14} /> : <IconPlayerPause size={14} />}
      loading={change.isPending}
      disabled={!data}
      onClick={() => void start()}
    >
      {label}
    </Button>
  );
}
