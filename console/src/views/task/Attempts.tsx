import { useQuery } from "@tanstack/react-query";
import { Ago } from "@/parts/Ago";
import { duration } from "@/parts/formats";
import { Panel } from "@/parts/Panel";
import { Rows } from "@/parts/Rows";
import { StateBadge } from "@/parts/StateBadge";
import { useNow } from "@/parts/useNow";
import { taskEventsQuery } from "@/services/tasks";
import { useTexts } from "@/texts";
import { attemptsOf } from "./executions";

/** Each time it was executed: by whom, how long, and what came of it. */
export function Attempts({ id }: { id: string }) {
  const t = useTexts().task.attempts;
  const now = useNow();
  const attempts = attemptsOf(useQuery(taskEventsQuery(id)).data ?? []);
  if (attempts.length === 0) return null;
  return (
    <Panel title={t.title} flush>
      <Rows
        label={t.title}
        heads={[
          { text: t.number },
          { text: t.outcome },
          { text: t.by },
          { text: t.started },
          { text: t.took, number: true },
        ]}
      >
        {attempts.map((attempt) => (
          <tr key={attempt.execution} title={attempt.detail ?? undefined}>
            <th scope="row">{attempt.number}</th>
            <td>
              <StateBadge status={attempt.outcome ?? "running"} />
            </td>
            <td>{attempt.by}</td>
            <td>
              <Ago at={attempt.startedAt} />
            </td>
            <td data-number>
              {duration(((attempt.endedAt ? Date.parse(attempt.endedAt) : now) - Date.parse(attempt.startedAt)) / 1000)}
            </td>
          </tr>
        ))}
      </Rows>
    </Panel>
  );
}
