import { Button, Menu, NumberInput } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { useSession } from "@/app/session";
import { Ago } from "@/parts/Ago";
import { useAsk } from "@/parts/Ask";
import { headOf } from "@/parts/errors";
import { complain, confirmDone } from "@/parts/problems";
import { RowButton } from "@/parts/RowButton";
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
      <td data-long className={classes.error} title={job.last_error ?? undefined}>
        {job.last_error ? <span>{headOf(job.last_error)}</span> : null}
      </td>
      <td data-actions className={classes.actions}>
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
  const label = t.queue.verbs[verb](job.id);
  const cancels = verb === "cancel";
  const start = async () => {
    if (!cancels || (await ask({ title: label, body: t.queue.cancelAsk, yes: label, danger: true }))) {
      acting.mutate(verb);
    }
  };
  return (
    <RowButton
      label={label}
      face={t.queue.faces[verb]}
      danger={cancels}
      loading={acting.isPending}
      onClick={() => void start()}
    />
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
        <Button
          size="compact-xs"
          variant="subtle"
          c="var(--mantine-color-anchor)"
          aria-label={`${t.queue.priority} ${job.id}`}
        >
          {t.queue.priorityFace}
        </Button>
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
          <Button type="submit" loading={setting.isPending}>
            {t.common.save}
          </Button>
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
    <RowButton
      label={`${t.queue.start.again}: ${job.id}`}
      face={t.queue.start.again}
      against={against}
      loading={starting.isPending}
      onClick={() => starting.mutate()}
    />
  );
}
