import { Autocomplete, Select, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { PauseDialog } from "@/parts/PauseDialog";
import { lanesQuery } from "@/services/lanes";
import { SCOPES, type Scope, type Subject } from "@/services/pauses";
import { typesQuery } from "@/services/types";
import { useTexts } from "@/texts";

/** Pause whatever is named. */
export function NewPause({ onClose }: { onClose: () => void }) {
  const words = useTexts().pauses;
  const [scope, setScope] = useState<Scope>("lane");
  const [name, setName] = useState("");
  const said = name.trim();
  const whole = scope === "all" || (scope === "tenant" ? /^-?\d+$/.test(said) : said !== "");
  const subject: Subject | null = whole ? { scope, name: scope === "all" ? "" : said } : null;
  return (
    <PauseDialog
      title={words.new}
      yes={subject ? words.pause(words.subject(subject.scope, subject.name)) : words.unnamed}
      about={words.newAbout}
      subject={subject}
      onClose={onClose}
    >
      <Select
        label={words.what}
        data-autofocus
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
