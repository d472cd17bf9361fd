import { useMutation, useQuery } from "@tanstack/react-query";
import { CapacityField } from "@/parts/CapacityField";
import { amount } from "@/parts/formats";
import { Gauge } from "@/parts/Gauge";
import { Panel } from "@/parts/Panel";
import { PauseButton } from "@/parts/PauseButton";
import { PauseNote } from "@/parts/PauseNote";
import { complain, confirmDone } from "@/parts/problems";
import { setCapacity } from "@/services/lanes";
import { pausesQuery, type Subject, sameSubject } from "@/services/pauses";
import type { Lane, QueueStats } from "@/services/requests";
import { useSpoken } from "@/texts";
import classes from "./LaneCard.module.css";

interface Props {
  lane: Lane;
  stats: QueueStats | undefined;
  steer: boolean;
}

/** One lane of the queue: how full it is, and how to change that. */
export function LaneCard({ lane, stats, steer }: Props) {
  const { t, language } = useSpoken();
  const words = t.queue;
  const subject: Subject = { scope: "lane", name: lane };
  const pause = useQuery(pausesQuery).data?.find((each) => sameSubject(each, subject));
  const capacity = stats?.capacity[lane] ?? null;
  const name = words.lanes[lane];
  const sizing = useMutation({
    mutationFn: (count: number | null) => setCapacity(lane, count),
    onMutate: () => capacity,
    onSuccess: (_, count, before) =>
      confirmDone(words.capacityChanged(name, count === null ? t.common.unlimited : String(count)), () =>
        sizing.mutate(before),
      ),
    onError: (error) => complain(error, t),
  });
  return (
    <Panel
      title={name}
      actions={
        steer ? (
          <PauseButton
            subject={subject}
            pause={pause}
            labels={{ pause: words.pauseOf(name), resume: words.resumeOf(name) }}
            short
            look={{ variant: "subtle", color: "gray" }}
          />
        ) : null
      }
    >
      <div className={classes.card} data-testid={`lane-${lane}`}>
        <Gauge
          label={name}
          value={stats?.running[lane] ?? 0}
          most={capacity}
          held={Boolean(pause)}
          note={pause ? words.paused : undefined}
        />
        {pause ? <PauseNote pause={pause} /> : null}
        <div className={classes.line}>
          <span>{words.queued(amount(stats?.queued[lane] ?? 0, language))}</span>
          <span className={classes.capacity}>
            {words.capacity}
            {steer && stats ? (
              <CapacityField
                label={words.capacityOf(name)}
                about={words.capacityAbout}
                value={capacity}
                onSave={sizing.mutateAsync}
              />
            ) : (
              <b>{capacity ?? t.common.unlimited}</b>
            )}
          </span>
        </div>
      </div>
    </Panel>
  );
}
