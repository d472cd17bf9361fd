import { Kbd, TextInput } from "@mantine/core";
import { IconSearch } from "@tabler/icons-react";
import { useNavigate } from "@tanstack/react-router";
import { useMemo, useRef, useState } from "react";
import { useTexts } from "@/texts";
import { idIn } from "./address";
import classes from "./Search.module.css";
import { useShortcuts } from "./shortcuts";

/** A number that can be a task's leads to that task; anything else is looked for in names, types and arguments. */
export function Search() {
  const t = useTexts().app;
  const navigate = useNavigate();
  const field = useRef<HTMLInputElement>(null);
  const [said, setSaid] = useState("");
  useShortcuts(useMemo(() => [{ keys: "/", label: t.search, run: () => field.current?.focus() }], [t]));

  const go = () => {
    const wanted = said.trim();
    if (!wanted) return;
    setSaid("");
    field.current?.blur();
    const taskId = idIn(wanted.replace(/^#/, ""));
    if (taskId) void navigate({ to: "/tasks/$taskId", params: { taskId } });
    else void navigate({ to: "/tasks", search: { q: wanted } });
  };

  return (
    <search className={classes.search}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          go();
        }}
      >
        <TextInput
          ref={field}
          aria-label={t.search}
          placeholder={t.searchHint}
          value={said}
          maxLength={255}
          onChange={(event) => setSaid(event.currentTarget.value)}
          onKeyDown={(event) => event.key === "Escape" && field.current?.blur()}
          leftSection={<IconSearch size={14} />}
          rightSection={<Kbd size="xs">/</Kbd>}
          enterKeyHint="search"
        />
      </form>
    </search>
  );
}
