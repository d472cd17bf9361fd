import { ActionIcon, Button, Checkbox, Menu, Popover, TextInput } from "@mantine/core";
import { IconBookmark, IconColumns3, IconDownload, IconTrash } from "@tabler/icons-react";
import { useState } from "react";
import { confirmDone } from "@/parts/problems";
import { useTexts } from "@/texts";
import { COLUMNS, type ColumnId, USUAL } from "./columns";
import { isSame, type TasksSearch } from "./search";
import classes from "./Toolbar.module.css";
import { BUILT_IN, removeView, savedViews, saveView } from "./views";

interface ViewsProps {
  search: TasksSearch;
  onChange: (search: TasksSearch) => void;
}

/** Saved searches: the built-in ones, and those of this browser. */
export function Views({ search, onChange }: ViewsProps) {
  const t = useTexts().tasks.views;
  const [mine, setMine] = useState(savedViews);
  const [name, setName] = useState("");
  const builtIn = Object.entries(BUILT_IN) as [keyof typeof BUILT_IN, TasksSearch][];
  const here =
    builtIn.find(([, view]) => isSame(view, search))?.[0] ?? mine.find((view) => isSame(view.search, search))?.name;
  const save = () => {
    setMine(saveView({ name: name.trim(), search }));
    confirmDone(t.saved(name.trim()));
    setName("");
  };
  return (
    <Menu position="bottom-end" closeOnItemClick={false}>
      <Menu.Target>
        <Button variant="default" leftSection={<IconBookmark size={14} />}>
          {here ? (here in BUILT_IN ? t[here as keyof typeof BUILT_IN] : here) : t.title}
        </Button>
      </Menu.Target>
      <Menu.Dropdown>
        {builtIn.map(([id, view]) => (
          <Menu.Item key={id} data-here={id === here || undefined} onClick={() => onChange(view)}>
            {t[id]}
          </Menu.Item>
        ))}
        {mine.length > 0 ? <Menu.Label>{t.mine}</Menu.Label> : null}
        {mine.map((view) => (
          <div key={view.name} className={classes.saved}>
            <Menu.Item onClick={() => onChange(view.search)}>{view.name}</Menu.Item>
            <ActionIcon aria-label={t.remove(view.name)} onClick={() => setMine(removeView(view.name))}>
              <IconTrash size={13} />
            </ActionIcon>
          </div>
        ))}
        <Menu.Divider />
        <form
          className={classes.save}
          onSubmit={(event) => {
            event.preventDefault();
            if (name.trim()) save();
          }}
        >
          <TextInput
            aria-label={t.name}
            placeholder={t.name}
            value={name}
            maxLength={60}
            onChange={(event) => setName(event.currentTarget.value)}
          />
          <Button type="submit" disabled={!name.trim()}>
            {t.save}
          </Button>
        </form>
      </Menu.Dropdown>
    </Menu>
  );
}

interface ColumnsProps {
  shown: ColumnId[];
  onChange: (shown: ColumnId[]) => void;
}

export function Columns({ shown, onChange }: ColumnsProps) {
  const t = useTexts().tasks;
  return (
    <Popover position="bottom-end" shadow="md">
      <Popover.Target>
        <Button variant="default" leftSection={<IconColumns3 size={14} />}>
          {t.columnsButton}
        </Button>
      </Popover.Target>
      <Popover.Dropdown className={classes.columns}>
        {COLUMNS.map(({ id }) => (
          <Checkbox
            key={id}
            label={t.columns[id]}
            checked={shown.includes(id)}
            disabled={id === "id"}
            onChange={(event) =>
              onChange(event.currentTarget.checked ? [...shown, id] : shown.filter((each) => each !== id))
            }
          />
        ))}
        <Button variant="subtle" onClick={() => onChange(USUAL)}>
          {t.usualColumns}
        </Button>
      </Popover.Dropdown>
    </Popover>
  );
}

export function Export({ onExport, loading }: { onExport: () => void; loading: boolean }) {
  const t = useTexts().tasks;
  return (
    <Button
      variant="default"
      title={t.exportAbout}
      leftSection={<IconDownload size={14} />}
      loading={loading}
      onClick={onExport}
    >
      {t.export}
    </Button>
  );
}
