import { Button, TextInput } from "@mantine/core";
import { IconPlus, IconSearch, IconSearchOff, IconTemplate } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useSession } from "@/app/session";
import { useShortcuts } from "@/app/shortcuts";
import { Empty } from "@/parts/Empty";
import { Name } from "@/parts/Name";
import { Page } from "@/parts/Page";
import { Panel } from "@/parts/Panel";
import { PauseButton } from "@/parts/PauseButton";
import { PauseNote } from "@/parts/PauseNote";
import { ProblemNote } from "@/parts/ProblemNote";
import { Rows } from "@/parts/Rows";
import { may, maySteer } from "@/services/session";
import { type TaskType, typesQuery } from "@/services/types";
import { useTexts } from "@/texts";
import { Form } from "./Form";
import classes from "./page.module.css";
import { type TypesSearch, typesRoute } from "./route";

export function TypesPage() {
  const t = useTexts().types;
  const { code, make, q } = typesRoute.useSearch();
  const navigate = useNavigate();
  const admin = may(useSession(), "admin");
  const types = useQuery(typesQuery);
  const found = (types.data ?? []).filter((type) => fits(type, q ?? ""));
  const filter: TypesSearch = q ? { q } : {};
  const go = (next: TypesSearch) => void navigate({ to: "/types", search: next, replace: true });
  const open = types.data?.find((type) => type.code === code);
  return (
    <Page
      title={t.title}
      about={t.about}
      actions={
        <>
          <TextInput
            aria-label={t.find}
            placeholder={t.find}
            leftSection={<IconSearch size={13} />}
            value={q ?? ""}
            maxLength={255}
            onChange={(event) => go(event.currentTarget.value ? { q: event.currentTarget.value } : {})}
          />
          {admin ? <Make onMake={() => go({ ...filter, make: true })} /> : null}
        </>
      }
    >
      {types.error ? <ProblemNote error={types.error} retry={() => types.refetch()} /> : null}
      {types.data ? (
        <Panel flush>
          {found.length > 0 ? (
            <Types types={found} admin={admin} onOpen={(each) => go({ ...filter, code: each })} />
          ) : types.data.length > 0 ? (
            <Empty icon={IconSearchOff} title={t.noneMatch} />
          ) : (
            <Empty icon={IconTemplate} title={t.none}>
              {t.noneAbout} <code>headgate work MODULE</code>
            </Empty>
          )}
        </Panel>
      ) : null}
      {make ? <Form type={null} onClose={() => go(filter)} /> : null}
      {open ? <Form key={open.code} type={open} onClose={() => go(filter)} /> : null}
    </Page>
  );
}

function fits(type: TaskType, q: string): boolean {
  return [type.code, type.name, type.category].some((text) => text.toLowerCase().includes(q.toLowerCase()));
}

function Make({ onMake }: { onMake: () => void }) {
  const t = useTexts().types;
  useShortcuts([{ keys: "n", label: t.make, run: onMake }]);
  return (
    <Button leftSection={<IconPlus size={14} />} onClick={onMake}>
      {t.make}
    </Button>
  );
}

interface TypesProps {
  types: TaskType[];
  admin: boolean;
  onOpen: (code: string) => void;
}

function Types({ types, admin, onOpen }: TypesProps) {
  const t = useTexts().types;
  const steer = maySteer(useSession());
  const heads = t.columns;
  return (
    <Rows
      label={t.title}
      cardsBelow={880}
      heads={[
        { text: heads.code, plain: true },
        { text: heads.category },
        { text: heads.lane },
        { text: heads.retry },
        { text: heads.timeout, number: true },
        { text: heads.manual },
        { text: heads.callback },
        { text: "" },
      ]}
    >
      {types.map((type) => (
        <tr key={type.code}>
          <td data-long data-title>
            <div className={classes.what}>
              <span>
                <button
                  type="button"
                  className={classes.code}
                  aria-label={admin ? t.edit(type.code) : t.show(type.code)}
                  onClick={() => onOpen(type.code)}
                >
                  <Name of={type.code} />
                </button>
              </span>
              {type.name ? <span className={classes.about}>{type.name}</span> : null}
              {type.pause ? <PauseNote pause={type.pause} /> : null}
            </div>
          </td>
          <td data-long>{type.category}</td>
          <td data-long>
            <Link to="/tasks" search={{ lane: type.lane }}>
              <Name of={type.lane} />
            </Link>
          </td>
          <td data-long>
            <Retry type={type} />
          </td>
          <td data-number>{t.minutes(Math.round(type.config.timeout * 100) / 100)}</td>
          <td data-muted>{type.config.need_manual ? t.toDesk : "–"}</td>
          <td data-long data-muted>
            <Callbacks type={type} />
          </td>
          <td data-actions>
            {steer ? (
              <PauseButton inRow subject={{ scope: "type", name: type.code }} pause={type.pause ?? null} />
            ) : null}
          </td>
        </tr>
      ))}
    </Rows>
  );
}

function Retry({ type }: { type: TaskType }) {
  const t = useTexts().types;
  const { retry_strategy: strategy, max_error_count: count } = type.config;
  if (strategy === "none") return <span data-muted>{t.never}</span>;
  return (
    <>
      {t.times(count)}
      <span className={classes.how}>{t.strategies[strategy]}</span>
    </>
  );
}

function Callbacks({ type }: { type: TaskType }) {
  const t = useTexts();
  const { success, error, security } = type.config.callback;
  if (!success && !error) return "–";
  return [
    success ? t.callbacks.kind.success : "",
    error ? t.callbacks.kind.error : "",
    security?.type === "aksk" ? t.types.signed : "",
  ]
    .filter(Boolean)
    .join(" · ");
}
