import { Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { amount, duration, share } from "@/parts/formats";
import { Name } from "@/parts/Name";
import { Panel } from "@/parts/Panel";
import { ProblemNote } from "@/parts/ProblemNote";
import { Rows } from "@/parts/Rows";
import { typeStatsQuery } from "@/services/figures";
import { useSpoken } from "@/texts";

const DAY_SECONDS = 86_400;

/** How the tasks of each type did. */
export function Types() {
  const { t, language } = useSpoken();
  const words = t.overview.types;
  const types = useQuery(typeStatsQuery(DAY_SECONDS));
  return (
    <Panel title={words.title} flush>
      {types.error ? <ProblemNote error={types.error} retry={() => types.refetch()} /> : null}
      {types.data?.length === 0 ? (
        <Text c="dimmed" p="md">
          {words.none}
        </Text>
      ) : (
        <Rows
          label={words.title}
          cardsBelow={400}
          heads={[
            { text: words.type, plain: true },
            { text: words.finished, number: true },
            { text: words.success, number: true },
            { text: words.median, number: true },
            { text: words.high, number: true },
          ]}
        >
          {types.data?.map((type) => (
            <tr key={type.type}>
              <th scope="row" data-long>
                <Link to="/tasks" search={{ type: type.type }}>
                  <Name of={type.type} />
                </Link>
              </th>
              <td data-number>{amount(type.finished, language)}</td>
              <td data-number>{share(type.success_rate)}</td>
              <td data-number>{duration(type.p50)}</td>
              <td data-number>{duration(type.p95)}</td>
            </tr>
          ))}
        </Rows>
      )}
    </Panel>
  );
}
