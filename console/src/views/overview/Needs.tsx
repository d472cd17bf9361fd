import { IconAlertOctagon, IconCircleCheck, IconPlayerPause, IconUserOff, IconWebhook } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import type { ComponentType, ReactNode } from "react";
import { useSession } from "@/app/session";
import { LinkButton } from "@/parts/links";
import { Name } from "@/parts/Name";
import { PauseButton } from "@/parts/PauseButton";
import { PauseNote } from "@/parts/PauseNote";
import { callbackCountsQuery } from "@/services/callbacks";
import { errorGroupsQuery } from "@/services/desk";
import { type Lane, lanesQuery } from "@/services/lanes";
import { pausesQuery } from "@/services/pauses";
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
  const callbacks = useQuery(callbackCountsQuery).data;
  const pauses = useQuery(pausesQuery).data;
  if (!dead || !lanes || !workers || !callbacks || !pauses) return <div className={classes.needs} />;

  const waiting = (lane: Lane) => lane.queued + lane.blocked;
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
  if (callbacks.undeliverable > 0) {
    found.push(
      <Need
        key="callbacks"
        tone="alarm"
        icon={IconWebhook}
        title={words.untold(callbacks.undeliverable, !callbacks.exact)}
        about={words.untoldAbout}
        action={
          <LinkButton to="/callbacks" search={{ status: "undeliverable" }} variant="default">
            {words.look}
          </LinkButton>
        }
      />,
    );
  }
  for (const pause of pauses) {
    const lane = pause.scope === "lane" ? lanes.items.find((each) => each.name === pause.name) : undefined;
    found.push(
      <Need
        key={`${pause.scope}:${pause.name}`}
        tone="held"
        icon={IconPlayerPause}
        title={<Name of={t.pauses.isPaused(t.pauses.subject(pause.scope, pause.name))} />}
        about={
          <>
            {pause.scope === "all"
              ? `${words.allPausedAbout} `
              : lane
                ? `${words.lanePausedAbout(waiting(lane))} `
                : null}
            <PauseNote pause={pause} />
          </>
        }
        action={steer ? <PauseButton subject={pause} pause={pause} short /> : null}
      />,
    );
  }
  for (const lane of lanes.items) {
    if (!lane.paused && lane.capacity === 0 && waiting(lane) > 0) {
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
  title: ReactNode;
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
