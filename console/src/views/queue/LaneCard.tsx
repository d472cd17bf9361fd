import { Button } from "@mantine/core";
import { IconPlayerPause, IconPlayerPlay } from "@tabler/icons-react";
import { useMutation } from "@tanstack/react-query";
import { CapacityField } from "@/parts/CapacityField";
import { amount } from "@/parts/formats";
import { Gauge } from "@/parts/Gauge";
import { Panel } from "@/parts/Panel";
import { complain, confirmDone } from "@/parts/problems";
import { hold, type Lane, type QueueStats, setQueueCapacity } from "@/services/requests";
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
  const holding = useMutation({ mutationFn: () => hold(lane, !paused), onError: (error) => complain(error, t) });
  const sizing = useMutation({
    mutationFn: (count: number) => setQueueCapacity(lane, count),
    onSuccess: (_, count) => confirmDone(words.capacityChanged(name, count)),
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
            onClick={() => holding.mutate()}
            aria-label={`${paused ? words.resume : words.pause}: ${name}`}
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
                onChange={(count) => count !== null && sizing.mutate(count)}
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
