import { Button } from "@mantine/core";
import { IconRadar2 } from "@tabler/icons-react";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { useSession } from "@/app/session";
import { Ago } from "@/parts/Ago";
import { amount, duration } from "@/parts/formats";
import { Page } from "@/parts/Page";
import { Panel } from "@/parts/Panel";
import { ProblemNote } from "@/parts/ProblemNote";
import { complain, confirmDone } from "@/parts/problems";
import { useNow } from "@/parts/useNow";
import { type Compensation, compensationQuery, lookNow } from "@/services/compensation";
import { may } from "@/services/session";
import type { Tone } from "@/services/states";
import { useSpoken, useTexts } from "@/texts";
import { secondsLeft } from "./countdown";
import classes from "./page.module.css";

const MOST_COUNTED = 10_000;

/** How the search for lost starts stands, and the button that looks now. */
export function CompensationPage() {
  const words = useTexts().compensation;
  const status = useQuery(compensationQuery);
  const operator = may(useSession(), "operator");
  return (
    <Page title={words.title} about={words.about} actions={operator ? <LookNow /> : null}>
      {status.error ? <ProblemNote error={status.error} retry={() => status.refetch()} /> : null}
      {status.data ? <Figures status={status.data} askedAt={status.dataUpdatedAt} /> : null}
      {status.data ? (
        <Panel title={words.how}>
          <ol className={classes.steps}>
            {words
              .steps(round(status.data.threshold_seconds), round(status.data.start_interval_seconds))
              .map((step) => (
                <li key={step}>{step}</li>
              ))}
          </ol>
        </Panel>
      ) : null}
    </Page>
  );
}

/** "5 s", not "5.0 s". */
function round(seconds: number): string {
  return duration(seconds).replace(".0 ", " ");
}

function LookNow() {
  const t = useTexts();
  const client = useQueryClient();
  const look = useMutation({
    mutationFn: lookNow,
    onSuccess: ({ found, ...status }) => {
      client.setQueryData(compensationQuery.queryKey, status);
      confirmDone(t.compensation.found(found));
    },
    onError: (error) => complain(error, t),
  });
  return (
    <Button leftSection={<IconRadar2 size={14} />} loading={look.isPending} onClick={() => look.mutate()}>
      {t.compensation.trigger}
    </Button>
  );
}

function Figures({ status, askedAt }: { status: Compensation; askedAt: number }) {
  const { t, language } = useSpoken();
  const words = t.compensation;
  const many = status.queue_size > MOST_COUNTED;
  return (
    <div className={classes.figures}>
      <Next status={status} askedAt={askedAt} />
      <Figure title={words.last} value={<Ago at={status.last_poll} />}>
        {status.last_poll === null ? words.lastNone : null}
      </Figure>
      <Figure title={words.interval} value={duration(status.interval_seconds)}>
        {words.multiplier(status.multiplier)}
      </Figure>
      <Figure title={words.queue} value={many ? words.queueMany : amount(status.queue_size, language)}>
        {words.queueAbout}
      </Figure>
      <Figure title={words.skips} value={amount(status.skips, language)} tone={status.skips > 0 ? "warn" : undefined}>
        {status.skips > 0 ? words.skipsAbout : words.skipsNone}
      </Figure>
    </div>
  );
}

/** Counts down by our own clock from what the server said: the two clocks need not agree. */
function Next({ status, askedAt }: { status: Compensation; askedAt: number }) {
  const words = useTexts().compensation;
  const now = useNow();
  const left = secondsLeft(status.next_poll_in_seconds, askedAt, now);
  if (left === null) {
    return (
      <Figure title={words.next} value={words.never} tone="alarm">
        {words.neverAbout}
      </Figure>
    );
  }
  const gone = status.interval_seconds > 0 ? 1 - Math.min(1, left / status.interval_seconds) : 1;
  return (
    <Figure title={words.next} value={left === 0 ? words.due : words.left(left)}>
      <span className={classes.track} role="presentation">
        <span style={{ width: `${gone * 100}%` }} />
      </span>
    </Figure>
  );
}

interface FigureProps {
  title: string;
  value: ReactNode;
  tone?: Tone | undefined;
  children?: ReactNode;
}

function Figure({ title, value, tone, children }: FigureProps) {
  return (
    <section className={classes.figure} data-tone={tone}>
      <h2>{title}</h2>
      <div className={classes.value}>{value}</div>
      <div className={classes.note}>{children}</div>
    </section>
  );
}
