import { Button } from "@mantine/core";
import { IconPlayerPause, IconPlayerPlay } from "@tabler/icons-react";
import { useMutation } from "@tanstack/react-query";
import { CapacityField } from "@/parts/CapacityField";
import { amount } from "@/parts/formats";
import { Gauge } from "@/parts/Gauge";
import { Panel } from "@/parts/Panel";
import { complain, confirmDone } from "@/parts/problems";
import { setCapacity } from "@/services/lanes";
import { hold, type Lane, type QueueStats } from "@/services/requests";
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
  const paused = stats?.paused[lane] ?? false;
  const capacity = stats?.capacity[lane] ?? null;
  const name = words.lanes[lane];
  const holding = useMutation({
    mutationFn: (now: boolean) => hold(lane, now),
    onSuccess: (_, now) =>
      confirmDone(
        now ? words.lanePaused(name) : words.laneResumed(name),
        now ? () => holding.mutate(false) : undefined,
      ),
    onError: (error) => complain(error, t),
  });
  const sizing = useMutation({
    mutationFn: (count: number | null) => setCapacity(lane, count),
    onSuccess: (_, count) => {
      const before = capacity;
      confirmDone(words.capacityChanged(name, count === null ? t.common.unlimited : String(count)), () =>
        sizing.mutate(before),
      );
    },
    onError: (error) => complain(error, t),
  });
  return (
    <Panel
      title={name}
      actions={
        steer ? (
          <Button
            variant="subtle"
            color="gray"
            leftSection={paused ? <IconPlayerPlay size={14} /> : <IconPlayerPause size={14} />}
            loading={holding.isPending}
            onClick={() => holding.mutate(!paused)}
            aria-label={paused ? words.resumeOf(name) : words.pauseOf(name)}
          >
            {paused ? words.resume : words.pause}
          </Button>
        ) : null
      }
    >
      <div className={classes.card} data-testid={`lane-${lane}`}>
        <Gauge
          label={name}
          value={stats?.running[lane] ?? 0}
          most={capacity}
          note={paused ? words.paused : undefined}
        />
        <div className={classes.line}>
          <span>{words.queued(amount(stats?.queued[lane] ?? 0, language))}</span>
          <span className={classes.capacity}>
            {words.capacity}
            {steer && stats ? (
              <CapacityField
                label={words.capacityOf(name)}
                about={words.capacityAbout}
                value={capacity}
                onSave={(count) => sizing.mutate(count)}
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
