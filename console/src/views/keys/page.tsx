import { Button } from "@mantine/core";
import { IconKey, IconPlus } from "@tabler/icons-react";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useSession } from "@/app/session";
import { Ago } from "@/parts/Ago";
import { useAsk } from "@/parts/Ask";
import { Empty } from "@/parts/Empty";
import { Name } from "@/parts/Name";
import { Page } from "@/parts/Page";
import { Panel } from "@/parts/Panel";
import { ProblemNote } from "@/parts/ProblemNote";
import { complain, confirmDone } from "@/parts/problems";
import { RowButton } from "@/parts/RowButton";
import { Rows } from "@/parts/Rows";
import { useNow } from "@/parts/useNow";
import { type Key, keysQuery, revokeKey } from "@/services/keys";
import { may } from "@/services/session";
import { useTexts } from "@/texts";
import { NewKeyDialog } from "./NewKeyDialog";
import classes from "./page.module.css";

export function KeysPage() {
  const t = useTexts().keys;
  const session = useSession();
  const keys = useQuery(keysQuery);
  const [making, setMaking] = useState(false);
  return (
    <Page
      title={t.title}
      about={t.about}
      actions={
        may(session, "admin") ? (
          <Button leftSection={<IconPlus size={14} />} onClick={() => setMaking(true)}>
            {t.make}
          </Button>
        ) : null
      }
    >
      {keys.error ? <ProblemNote error={keys.error} retry={() => keys.refetch()} /> : null}
      {keys.data?.length === 0 ? (
        <Empty icon={IconKey} title={session.open ? t.firstTitle : t.none}>
          {session.open ? t.firstAbout : null}
        </Empty>
      ) : (
        <Panel flush>
          <Rows
            label={t.title}
            cardsBelow={880}
            heads={[
              { text: t.name, plain: true },
              { text: t.access },
              { text: t.role, plain: true },
              { text: t.tenant },
              { text: t.state, plain: true },
              { text: t.used },
              { text: t.expires },
              { text: t.created },
              { text: t.by },
              { text: "" },
            ]}
          >
            {keys.data?.map((key) => (
              <KeyRow key={key.id} of={key} />
            ))}
          </Rows>
        </Panel>
      )}
      {making ? <NewKeyDialog first={session.open} onClose={() => setMaking(false)} /> : null}
    </Page>
  );
}

function KeyRow({ of: key }: { of: Key }) {
  const t = useTexts();
  const words = t.keys;
  const ask = useAsk();
  const now = useNow();
  const revoke = useMutation({
    mutationFn: () => revokeKey(key.id),
    onSuccess: () => confirmDone(words.revoked(key.name)),
    onError: (error) => complain(error, t),
  });
  const over = key.expires_at !== null && Date.parse(key.expires_at) <= now;
  const [word, tone] = key.revoked_at ? [words.ended, "past"] : over ? [words.over, "past"] : [words.good, "good"];
  const start = async () => {
    const question = { title: words.revokeTitle(key.name), body: words.revokeAbout, yes: words.revoke, danger: true };
    if (await ask(question)) revoke.mutate();
  };
  return (
    <tr>
      <th scope="row" data-long>
        <Name of={key.name} />
      </th>
      <td>
        <code>{key.access_key}</code>
      </td>
      <td>{t.app.roles[key.role]}</td>
      <td>{key.tenant_id ?? words.everybody}</td>
      <td className={classes.state} data-tone={tone}>
        {word}
      </td>
      <td>
        <Ago at={key.last_used_at} none={words.never} />
      </td>
      <td>
        <Ago at={key.expires_at} none={words.never} />
      </td>
      <td>
        <Ago at={key.created_at} />
      </td>
      <td data-long data-muted>
        <Name of={key.created_by} />
      </td>
      <td data-actions>
        {key.revoked_at ? null : (
          <RowButton
            label={words.revokeOf(key.name)}
            face={words.revoke}
            danger
            loading={revoke.isPending}
            onClick={() => void start()}
          />
        )}
      </td>
    </tr>
  );
}
