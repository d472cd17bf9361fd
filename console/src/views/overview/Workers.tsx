import { Tooltip } from "@mantine/core";
import { IconUsersGroup } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { Ago } from "@/parts/Ago";
import { Empty } from "@/parts/Empty";
import { bytes, duration } from "@/parts/formats";
import { Name } from "@/parts/Name";
import { Panel } from "@/parts/Panel";
import { ProblemNote } from "@/parts/ProblemNote";
import { Rows } from "@/parts/Rows";
import { useNow } from "@/parts/useNow";
import { type Worker, workersQuery } from "@/services/workers";
import { useTexts } from "@/texts";

/** Who executes tasks, and what they carry. */
export function Workers() {
  const t = useTexts().overview.workers;
  const workers = useQuery(workersQuery);
  return (
    <Panel title={t.title} flush>
      {workers.error ? <ProblemNote error={workers.error} retry={() => workers.refetch()} /> : null}
      {workers.data?.length === 0 ? (
        <Empty icon={IconUsersGroup} title={t.none}>
          {t.noneAbout} <code>headgate work MODULE</code>
        </Empty>
      ) : (
        <Rows
          label={t.title}
          cardsBelow={400}
          heads={[
            { text: t.name },
            { text: t.types },
            { text: t.running, number: true },
            { text: t.cpu, number: true },
            { text: t.memory, number: true },
            { text: t.beat, number: true },
          ]}
        >
          {workers.data?.map((worker) => (
            <WorkerRow key={worker.id} worker={worker} />
          ))}
        </Rows>
      )}
    </Panel>
  );
}

function WorkerRow({ worker }: { worker: Worker }) {
  const t = useTexts().overview.workers;
  const late = Date.parse(worker.lease_until) < useNow();
  return (
    <tr>
      <th scope="row" data-long>
        <Name of={worker.agent_id ?? worker.name} /> <small data-muted>{t.kind[worker.kind]}</small>
      </th>
      <td>
        {worker.types === null ? (
          <span data-muted>{t.anyType}</span>
        ) : (
          <Tooltip label={worker.types.join(", ")} multiline maw={320}>
            <span>{worker.types.length}</span>
          </Tooltip>
        )}
      </td>
      <td data-number>{worker.running}</td>
      <td data-number>{duration(worker.cpu_seconds)}</td>
      <td data-number>{bytes(worker.memory_bytes)}</td>
      <td data-number data-tone={late ? "alarm" : undefined}>
        <Ago at={worker.lease_until} />
      </td>
    </tr>
  );
}
