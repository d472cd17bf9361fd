import { Button, Select, TextInput } from "@mantine/core";
import { IconSearch } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { lanesQuery } from "@/services/lanes";
import { typesQuery } from "@/services/types";
import { useTexts } from "@/texts";
import classes from "./page.module.css";
import type { DeskSearch } from "./route";

interface Props {
  search: DeskSearch;
  onChange: (search: DeskSearch) => void;
}

/** Which dead letters are listed. Everything here stands in the address. */
export function Filters({ search, onChange }: Props) {
  const t = useTexts().desk.filters;
  const types = useQuery(typesQuery).data ?? [];
  const lanes = useQuery(lanesQuery).data?.items ?? [];
  const set = (change: { [K in keyof DeskSearch]?: DeskSearch[K] | undefined }) =>
    onChange(Object.fromEntries(Object.entries({ ...search, ...change }).filter(([, value]) => value !== undefined)));
  const age = search.younger_than
    ? `young-${search.younger_than}`
    : search.older_than
      ? `old-${search.older_than}`
      : null;
  return (
    <div className={classes.filters}>
      <ErrorText value={search.error ?? ""} label={t.error} onChange={(error) => set({ error: error || undefined })} />
      <Select
        aria-label={t.type}
        placeholder={t.type}
        data={withChosen(
          types.map((type) => type.code),
          search.type,
        )}
        value={search.type ?? null}
        onChange={(type) => set({ type: type ?? undefined })}
        searchable
        clearable
        w={150}
      />
      <Select
        aria-label={t.lane}
        placeholder={t.lane}
        data={withChosen(
          lanes.map((lane) => lane.name),
          search.lane,
        )}
        value={search.lane ?? null}
        onChange={(lane) => set({ lane: lane ?? undefined })}
        searchable
        clearable
        w={150}
      />
      <Select
        aria-label={t.age}
        placeholder={t.age}
        data={Object.entries(t.ages).map(([value, label]) => ({ value, label }))}
        value={age}
        onChange={(chosen) => {
          const [side, seconds] = (chosen ?? "").split("-");
          set({
            younger_than: side === "young" ? Number(seconds) : undefined,
            older_than: side === "old" ? Number(seconds) : undefined,
          });
        }}
        clearable
        w={170}
      />
      {Object.keys(search).length > 0 ? (
        <Button variant="subtle" color="gray" onClick={() => onChange({})}>
          {t.reset}
        </Button>
      ) : null}
    </div>
  );
}

function withChosen(known: string[], chosen: string | undefined): string[] {
  return chosen && !known.includes(chosen) ? [chosen, ...known] : known;
}

/** Counts with Enter, or when the field is left. */
function ErrorText({ value, label, onChange }: { value: string; label: string; onChange: (text: string) => void }) {
  const [draft, setDraft] = useState(value);
  useEffect(() => setDraft(value), [value]);
  const send = () => draft.trim() !== value && onChange(draft.trim());
  return (
    <TextInput
      aria-label={label}
      placeholder={label}
      leftSection={<IconSearch size={13} />}
      value={draft}
      maxLength={255}
      w={240}
      onChange={(event) => setDraft(event.currentTarget.value)}
      onBlur={send}
      onKeyDown={(event) => event.key === "Enter" && send()}
    />
  );
}
