import { Tooltip } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useSession } from "@/app/session";
import { Ago } from "@/parts/Ago";
import { CapacityField } from "@/parts/CapacityField";
import { amount } from "@/parts/formats";
import { Gauge } from "@/parts/Gauge";
import { Name } from "@/parts/Name";
import { Panel } from "@/parts/Panel";
import { PauseButton } from "@/parts/PauseButton";
import { PauseNote } from "@/parts/PauseNote";
import { ProblemNote } from "@/parts/ProblemNote";
import { complain, confirmDone } from "@/parts/problems";
import { Rows } from "@/parts/Rows";
import { reasonText } from "@/parts/told";
import { type Lane, lanesQuery, setCapacity } from "@/services/lanes";
import { maySteer } from "@/services/session";
import { useSpoken, useTexts } from "@/texts";

/** How full each lane is, and how to change that. */
export function Lanes() {
  const { t } = useSpoken();
  const words = t.overview.lanes;
  const lanes = useQuery(lanesQuery);
  const steer = maySteer(useSession());
  return (
    <Panel place="lanes" title={words.title} flush>
      {lanes.error ? <ProblemNote error={lanes.error} retry={() => lanes.refetch()} /> : null}
      <Rows
        label={words.title}
        heads={[
          { text: words.lane, wide: true, plain: true },
          { text: words.load },
          { text: words.queued, number: true },
          { text: words.blocked, number: true, title: words.asOf },
          { text: words.later, number: true, title: words.asOf },
          { text: words.capacity, number: true },
          { text: "" },
        ]}
      >
        {(lanes.data?.items ?? []).map((lane) => (
          <LaneRow key={lane.name} lane={lane} steer={steer} />
        ))}
      </Rows>
    </Panel>
  );
}

function LaneRow({ lane, steer }: { lane: Lane; steer: boolean }) {
  const { t, language } = useSpoken();
  const words = t.overview.lanes;
  const queued = amount(lane.queued, language);
  return (
    <tr data-dim={lane.paused || undefined}>
      <th scope="row" data-long>
        <Link to="/tasks" search={{ lane: lane.name }}>
          <Name of={lane.name} />
        </Link>
        {lane.pause ? <PauseNote pause={lane.pause} /> : null}
      </th>
      <td data-wide>
        <Gauge
          label={lane.name}
          value={lane.running + lane.others}
          most={lane.capacity}
          held={lane.paused}
          note={lane.paused && !lane.pause ? words.paused : undefined}
        />
      </td>
      <td data-number>
        <Tooltip label={<Drains lane={lane} />} disabled={lane.queued === 0 || !lane.drained}>
          <span>{lane.queued_exact ? queued : words.atLeast(queued)}</span>
        </Tooltip>
      </td>
      <td data-number>{amount(lane.blocked, language)}</td>
      <td data-number>{amount(lane.later, language)}</td>
      <td data-number>{steer ? <Capacity lane={lane} /> : (lane.capacity ?? t.common.unlimited)}</td>
      <td data-actions>
        {steer ? (
          <PauseButton
            inRow
            subject={{ scope: "lane", name: lane.name }}
            pause={lane.pause}
            labels={{ pause: words.pause(lane.name), resume: words.resume(lane.name) }}
          />
        ) : null}
      </td>
    </tr>
  );
}

/** When a lane will be empty, if nothing more comes. */
function Drains({ lane }: { lane: Lane }) {
  const t = useTexts();
  const words = t.overview.lanes;
  if (!lane.drained) return null;
  return (
    <>
      {lane.drained.at ? (
        <>
          {words.drained} <Ago at={lane.drained.at} />
        </>
      ) : (
        words.neverDrained
      )}
      : {reasonText(lane.drained, t)}
    </>
  );
}

function Capacity({ lane }: { lane: Lane }) {
  const t = useTexts();
  const words = t.overview.lanes;
  const change = useMutation({
    mutationFn: (capacity: number | null) => setCapacity(lane.name, capacity),
    onMutate: () => lane.capacity,
    onSuccess: (_, capacity, before) =>
      confirmDone(words.changed(lane.name, capacity === null ? t.common.unlimited : String(capacity)), () =>
        change.mutate(before),
      ),
    onError: (error) => complain(error, t),
  });
  return (
    <CapacityField
      label={words.setCapacity(lane.name)}
      about={words.capacityAbout}
      value={lane.capacity}
      onSave={change.mutateAsync}
    />
  );
}
