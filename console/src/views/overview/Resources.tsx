import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { amount } from "@/parts/formats";
import { Name } from "@/parts/Name";
import { Panel } from "@/parts/Panel";
import { ProblemNote } from "@/parts/ProblemNote";
import { Rows } from "@/parts/Rows";
import { resourcesQuery } from "@/services/resources";
import { useSpoken } from "@/texts";

const MOST = 6;

/** How full each resource is, who has it, and how many handlers wait for it. */
export function Resources() {
  const { t, language } = useSpoken();
  const words = t.overview.resources;
  const resources = useQuery(resourcesQuery);
  if (!resources.error && !resources.data?.length) return null;
  return (
    <Panel title={words.title} flush>
      {resources.error ? <ProblemNote error={resources.error} retry={() => resources.refetch()} /> : null}
      <Rows
        label={words.title}
        heads={[
          { text: words.name },
          { text: words.load, number: true },
          { text: words.waiting, number: true },
          { text: words.holders },
        ]}
      >
        {resources.data?.map((resource) => (
          <tr key={resource.name}>
            <th scope="row" data-long>
              <Name of={resource.name} />
            </th>
            <td data-number>{words.of(amount(resource.running, language), amount(resource.capacity, language))}</td>
            <td data-number>{amount(resource.waiting, language)}</td>
            <td data-long>
              {resource.holders.slice(0, MOST).map((holder) => (
                <Link key={holder.task_id} to="/tasks/$taskId" params={{ taskId: String(holder.task_id) }}>
                  #{holder.task_id}{" "}
                </Link>
              ))}
              {resource.running > Math.min(resource.holders.length, MOST) ? "…" : null}
            </td>
          </tr>
        ))}
      </Rows>
    </Panel>
  );
}
