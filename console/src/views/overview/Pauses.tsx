import { Autocomplete, Button, Select, TextInput } from "@mantine/core";
import { IconPlayerPause } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useSession } from "@/app/session";
import { Ago } from "@/parts/Ago";
import { Panel } from "@/parts/Panel";
import { PauseButton } from "@/parts/PauseButton";
import { PauseDialog } from "@/parts/PauseDialog";
import { ProblemNote } from "@/parts/ProblemNote";
import { Rows } from "@/parts/Rows";
import { lanesQuery } from "@/services/lanes";
import { pausesQuery, SCOPES, type Scope, type Subject } from "@/services/pauses";
import { maySteer } from "@/services/session";
import { typesQuery } from "@/services/types";
import { useTexts } from "@/texts";

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
          { text: heads.what },
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
            <th scope="row">{words.subject(pause.scope, pause.name)}</th>
            <td>{pause.reason || "–"}</td>
            <td data-muted>{pause.actor}</td>
            <td data-muted>
              <Ago at={pause.at} />
            </td>
            <td data-muted>
              <Ago at={pause.until} none={words.noEnd} />
            </td>
            <td data-number>{steer ? <PauseButton small subject={pause} pause={pause} /> : null}</td>
          </tr>
        ))}
      </Rows>
      {asking ? <NewPause onClose={() => setAsking(false)} /> : null}
    </Panel>
  );
}

function NewPause({ onClose }: { onClose: () => void }) {
  const words = useTexts().pauses;
  const [scope, setScope] = useState<Scope>("lane");
  const [name, setName] = useState("");
  const said = name.trim();
  const whole = scope === "all" || (scope === "tenant" ? /^-?\d+$/.test(said) : said !== "");
  const subject: Subject | null = whole ? { scope, name: scope === "all" ? "" : said } : null;
  return (
    <PauseDialog title={words.new} about={words.newAbout} subject={subject} onClose={onClose}>
      <Select
        label={words.what}
        data={SCOPES.map((value) => ({ value, label: words.whats[value] }))}
        value={scope}
        allowDeselect={false}
        onChange={(next) => {
          setScope((next as Scope | null) ?? "lane");
          setName("");
        }}
      />
      {scope === "all" ? null : <Name scope={scope} value={name} onChange={setName} />}
    </PauseDialog>
  );
}

interface NameProps {
  scope: Exclude<Scope, "all">;
  value: string;
  onChange: (name: string) => void;
}

function Name({ scope, value, onChange }: NameProps) {
  const words = useTexts().pauses;
  const lanes = useQuery({ ...lanesQuery, enabled: scope === "lane" }).data?.items.map((lane) => lane.name);
  const types = useQuery({ ...typesQuery, enabled: scope === "type" }).data?.map((type) => type.code);
  const label = scope === "tenant" ? words.tenantNumber : words.name;
  const known = scope === "lane" ? lanes : scope === "type" ? types : undefined;
  return known ? (
    <Autocomplete my="sm" label={label} data={[...new Set(known)]} value={value} maxLength={255} onChange={onChange} />
  ) : (
    <TextInput
      my="sm"
      label={label}
      value={value}
      maxLength={255}
      onChange={(event) => onChange(event.currentTarget.value)}
    />
  );
}
