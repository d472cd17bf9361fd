import { Button } from "@mantine/core";
import { IconAlertOctagon, IconCircleCheck, IconPlayerPause, IconUserOff, IconWebhook } from "@tabler/icons-react";
import { useMutation, useQuery } from "@tanstack/react-query";
import type { ComponentType, ReactNode } from "react";
import { useSession } from "@/app/session";
import { LinkButton } from "@/parts/links";
import { complain } from "@/parts/problems";
import { undeliverableQuery } from "@/services/callbacks";
import { errorGroupsQuery } from "@/services/desk";
import { type Lane, lanesQuery, pauseEverything, setPaused } from "@/services/lanes";
import { maySteer } from "@/services/session";
import type { Tone } from "@/services/states";
import { workersQuery } from "@/services/workers";
import { useTexts } from "@/texts";
import classes from "./Needs.module.css";

/** What stands still until a person does something, with the button that does it. */
export function Needs() {
  const t = useTexts();
  const words = t.overview.needs;
  const steer = maySteer(useSession());
  const dead = useQuery(errorGroupsQuery({})).data;
  const lanes = useQuery(lanesQuery).data;
  const workers = useQuery(workersQuery).data;
  const lost = useQuery(undeliverableQuery).data;
  const resume = useMutation({
    mutationFn: (lane: string | null) => (lane === null ? pauseEverything(false) : setPaused(lane, false)),
    onError: (error) => complain(error, t),
  });
  if (!dead || !lanes || !workers || !lost) return <div className={classes.needs} />;

  const waiting = (lane: Lane) => lane.queued + lane.blocked;
  const resumed = (lane: string | null) =>
    steer ? (
      <Button variant="default" onClick={() => resume.mutate(lane)} loading={resume.isPending}>
        {words.resume}
      </Button>
    ) : null;
  const found: ReactNode[] = [];
  if (dead.total > 0) {
    found.push(
      <Need
        key="dead"
        tone="alarm"
        icon={IconAlertOctagon}
        title={words.dead(dead.total, dead.exact)}
        about={words.deadAbout}
        action={
          <LinkButton to="/desk" variant="default">
            {words.look}
          </LinkButton>
        }
      />,
    );
  }
  if (lost.items.length > 0) {
    found.push(
      <Need
        key="callbacks"
        tone="alarm"
        icon={IconWebhook}
        title={words.untold(lost.items.length, lost.next_cursor !== null)}
        about={words.untoldAbout}
        action={
          <LinkButton to="/callbacks" search={{ status: "undeliverable" }} variant="default">
            {words.look}
          </LinkButton>
        }
      />,
    );
  }
  if (lanes.everything_paused) {
    found.push(
      <Need
        key="paused"
        tone="held"
        icon={IconPlayerPause}
        title={words.allPaused}
        about={words.allPausedAbout}
        action={resumed(null)}
      />,
    );
  }
  for (const lane of lanes.items) {
    if (lane.paused) {
      found.push(
        <Need
          key={lane.name}
          tone="held"
          icon={IconPlayerPause}
          title={words.lanePaused(lane.name)}
          about={words.lanePausedAbout(waiting(lane))}
          action={resumed(lane.name)}
        />,
      );
    } else if (lane.capacity === 0 && waiting(lane) > 0) {
      found.push(
        <Need
          key={lane.name}
          tone="warn"
          icon={IconPlayerPause}
          title={words.shut(lane.name)}
          about={words.shutAbout(waiting(lane))}
        />,
      );
    }
  }
  if (workers.length === 0 && lanes.items.some((lane) => waiting(lane) > 0)) {
    found.push(
      <Need
        key="workers"
        tone="alarm"
        icon={IconUserOff}
        title={words.noWorkers}
        about={
          <>
            {words.noWorkersAbout} <code>headgate work MODULE</code>
          </>
        }
      />,
    );
  }

  return (
    <section className={classes.needs} aria-label={words.title}>
      {found.length > 0 ? (
        found
      ) : (
        <p className={classes.nothing} data-tone="good">
          <IconCircleCheck size={16} stroke={1.8} /> {words.nothing}
        </p>
      )}
    </section>
  );
}

interface NeedProps {
  tone: Tone;
  icon: ComponentType<{ size?: number | string; stroke?: number | string }>;
  title: string;
  about: ReactNode;
  action?: ReactNode;
}

function Need({ tone, icon: Icon, title, about, action }: NeedProps) {
  return (
    <div className={classes.need} data-tone={tone}>
      <Icon size={20} stroke={1.7} />
      <div className={classes.words}>
        <strong>{title}</strong>
        <span>{about}</span>
      </div>
      {action}
    </div>
  );
}
