import { Button } from "@mantine/core";
import { IconPlayerPause } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { lazy, Suspense, useState } from "react";
import { useSession } from "@/app/session";
import { Ago } from "@/parts/Ago";
import { Name } from "@/parts/Name";
import { Panel } from "@/parts/Panel";
import { PauseButton } from "@/parts/PauseButton";
import { ProblemNote } from "@/parts/ProblemNote";
import { Rows } from "@/parts/Rows";
import { pausesQuery } from "@/services/pauses";
import { maySteer } from "@/services/session";
import { useTexts } from "@/texts";

// Loaded when somebody asks for it.
const NewPause = lazy(() => import("./NewPause").then((module) => ({ default: module.NewPause })));

/** Everything that is paused, and how to pause something else. */
export function Pauses() {
  const t = useTexts();
  const words = t.pauses;
  const steer = maySteer(useSession());
  const pauses = useQuery(pausesQuery);
  const [asking, setAsking] = useState(false);
  if (!steer && !pauses.data?.length) return null;
  const heads = words.columns;
  return (
    <Panel
      place="pauses"
      title={words.title}
      flush
      actions={
        steer ? (
          <Button
            variant="subtle"
            color="gray"
            leftSection={<IconPlayerPause size={14} />}
            onClick={() => setAsking(true)}
          >
            {words.new}
          </Button>
        ) : null
      }
    >
      {pauses.error ? <ProblemNote error={pauses.error} retry={() => pauses.refetch()} /> : null}
      <Rows
        label={words.title}
        heads={[
          { text: heads.what, plain: true },
          { text: heads.why, wide: true },
          { text: heads.by },
          { text: heads.since },
          { text: heads.until },
          { text: "" },
        ]}
      >
        {pauses.data?.length === 0 ? (
          <tr>
            <td colSpan={6} data-muted>
              {words.none}
            </td>
          </tr>
        ) : null}
        {(pauses.data ?? []).map((pause) => (
          <tr key={`${pause.scope}:${pause.name}`}>
            <th scope="row" data-long>
              <Name of={words.subject(pause.scope, pause.name)} />
            </th>
            <td data-long>{pause.reason || "–"}</td>
            <td data-muted>{pause.actor}</td>
            <td data-muted>
              <Ago at={pause.at} />
            </td>
            <td data-muted>
              <Ago at={pause.until} none={words.noEnd} />
            </td>
            <td data-actions>{steer ? <PauseButton inRow subject={pause} pause={pause} /> : null}</td>
          </tr>
        ))}
      </Rows>
      {asking ? (
        <Suspense>
          <NewPause onClose={() => setAsking(false)} />
        </Suspense>
      ) : null}
    </Panel>
  );
}
