import { ActionIcon, Menu, NumberInput, Tooltip } from "@mantine/core";
import {
  IconArrowBarToUp,
  IconDots,
  IconPlayerPause,
  IconPlayerPlay,
  IconRepeat,
  IconSortAscendingNumbers,
  IconX,
} from "@tabler/icons-react";
import { useMutation } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { ComponentType } from "react";
import { useState } from "react";
import { useSession } from "@/app/session";
import { Ago } from "@/parts/Ago";
import { useAsk } from "@/parts/Ask";
import { headOf } from "@/parts/errors";
import { complain, confirmDone } from "@/parts/problems";
import { StateBadge } from "@/parts/StateBadge";
import {
  actOnRequest,
  type RequestJob,
  type RequestType,
  type RequestVerb,
  SHOWN_AS,
  startRequest,
} from "@/services/requests";
import { may } from "@/services/session";
import { useTexts } from "@/texts";
import { type BusyOnes, reasonAgainst } from "./busy";
import classes from "./RequestRow.module.css";

const ICONS: Record<RequestVerb, ComponentType<{ size?: number | string }>> = {
  pause: IconPlayerPause,
  resume: IconPlayerPlay,
  cancel: IconX,
  prioritize: IconArrowBarToUp,
};

function verbsFor(job: RequestJob): RequestVerb[] {
  switch (job.status) {
    case "queued":
      return ["prioritize", "pause", "cancel"];
    case "running":
      return ["pause", "cancel"];
    case "paused":
      return ["resume", "cancel"];
    case "done":
    case "failed":
    case "canceled":
      return [];
  }
}

/** One request, with what can be done to it. */
export function RequestRow({ job, busy }: { job: RequestJob; busy: BusyOnes | undefined }) {
  const t = useTexts().queue;
  const session = useSession();
  return (
    <tr>
      <th scope="row">
        <Link to="/tasks/$taskId" params={{ taskId: String(job.id) }}>
          {job.id}
        </Link>
      </th>
      <td>{t.types[job.type as RequestType] ?? job.type}</td>
      <td>{job.subscription_id}</td>
      <td>{job.requires_cookie ? t.yes : t.no}</td>
      <td>
        <StateBadge status={SHOWN_AS[job.status]} />
      </td>
      <td data-number>{job.priority}</td>
      <td data-number>
        {job.attempts}/{job.max_attempts}
      </td>
      <td>
        <Ago at={job.created_at} />
      </td>
      <td>
        <Ago at={job.started_at} />
      </td>
      <td>
        <Ago at={job.finished_at} />
      </td>
      <td className={classes.error} title={job.last_error ?? undefined}>
        {headOf(job.last_error)}
      </td>
      <td className={classes.actions}>
        {may(session, "operator") ? verbsFor(job).map((verb) => <Act key={verb} job={job} verb={verb} />) : null}
        {may(session, "operator") && job.status === "queued" ? <Priority job={job} /> : null}
        {may(session, "submit") && verbsFor(job).length === 0 ? <Again job={job} busy={busy} /> : null}
      </td>
    </tr>
  );
}

function Act({ job, verb }: { job: RequestJob; verb: RequestVerb }) {
  const t = useTexts();
  const ask = useAsk();
  const acting = useMutation({
    mutationFn: (chosen: RequestVerb) => actOnRequest(job.id, chosen),
    onSuccess: (_, chosen) =>
      confirmDone(t.queue.did[chosen](job.id), chosen === "pause" ? () => acting.mutate("resume") : undefined),
    onError: (error) => complain(error, t),
  });
  const Icon = ICONS[verb];
  const label = t.queue.verbs[verb](job.id);
  const cancels = verb === "cancel";
  const start = async () => {
    if (!cancels || (await ask({ title: label, body: t.queue.cancelAsk, yes: label, danger: true }))) {
      acting.mutate(verb);
    }
  };
  return (
    <Tooltip label={label}>
      <ActionIcon
        aria-label={label}
        {...(cancels ? { c: "var(--tone-alarm)" } : {})}
        loading={acting.isPending}
        onClick={() => void start()}
      >
        <Icon size={14} />
      </ActionIcon>
    </Tooltip>
  );
}

function Priority({ job }: { job: RequestJob }) {
  const t = useTexts();
  const [value, setValue] = useState<number | string>(job.priority);
  const setting = useMutation({
    mutationFn: () => actOnRequest(job.id, "prioritize", Number(value)),
    onSuccess: () => confirmDone(t.queue.prioritySet(job.id, Number(value))),
    onError: (error) => complain(error, t),
  });
  return (
    <Menu position="bottom-end" closeOnItemClick={false}>
      <Menu.Target>
        <ActionIcon aria-label={`${t.queue.priority} ${job.id}`}>
          <IconDots size={14} />
        </ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>
        <form
          className={classes.priority}
          onSubmit={(event) => {
            event.preventDefault();
            if (value !== "") setting.mutate();
          }}
        >
          <NumberInput label={`${t.queue.priority} ${job.id}`} value={value} allowDecimal={false} onChange={setValue} />
          <ActionIcon type="submit" variant="filled" color="brand" size="md" aria-label={t.common.save}>
            <IconSortAscendingNumbers size={14} />
          </ActionIcon>
        </form>
      </Menu.Dropdown>
    </Menu>
  );
}

function Again({ job, busy }: { job: RequestJob; busy: BusyOnes | undefined }) {
  const t = useTexts();
  const against = reasonAgainst(job.subscription_id, busy, t.queue);
  const starting = useMutation({
    mutationFn: () =>
      startRequest({
        type: job.type as RequestType,
        subscription_id: job.subscription_id,
        url: job.url,
        requires_cookie: job.requires_cookie,
      }),
    onSuccess: (made) => confirmDone(t.queue.start.started(made.id)),
    onError: (error) => complain(error, t),
  });
  return (
    <Tooltip label={against ?? t.queue.start.again} multiline maw={320}>
      <ActionIcon
        aria-label={`${t.queue.start.again}: ${job.id}`}
        {...(against ? { "aria-disabled": true, "data-disabled": true } : {})}
        loading={starting.isPending}
        onClick={(event) => (against ? event.preventDefault() : starting.mutate())}
      >
        <IconRepeat size={14} />
      </ActionIcon>
    </Tooltip>
  );
}
