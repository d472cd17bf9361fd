import { Button, Group, Stack, Textarea, TextInput, Tooltip } from "@mantine/core";
import { IconPlus } from "@tabler/icons-react";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Ago } from "@/parts/Ago";
import { useAsk } from "@/parts/Ask";
import { Dialog } from "@/parts/Dialog";
import { Name } from "@/parts/Name";
import { Panel } from "@/parts/Panel";
import { ProblemNote } from "@/parts/ProblemNote";
import { complain, confirmDone } from "@/parts/problems";
import { RowButton } from "@/parts/RowButton";
import { Rows } from "@/parts/Rows";
import { cookiesQuery, deleteCookie, enableCookie, putCookie, type SiteCookie } from "@/services/cookies";
import { useTexts } from "@/texts";
import classes from "./page.module.css";

/** The cookies of sites: what became of each, and a way to put a new one. */
export function Cookies() {
  const t = useTexts().subscriptions.cookies;
  const cookies = useQuery(cookiesQuery);
  const [putting, setPutting] = useState(false);
  return (
    <Panel
      flush
      title={t.title}
      actions={
        <Button variant="default" leftSection={<IconPlus size={14} />} onClick={() => setPutting(true)}>
          {t.put}
        </Button>
      }
    >
      <p className={classes.about}>{t.about}</p>
      {cookies.error ? <ProblemNote error={cookies.error} retry={() => cookies.refetch()} /> : null}
      {cookies.data?.length === 0 ? (
        <p className={classes.about}>{t.none}</p>
      ) : (
        <Rows
          label={t.title}
          cardsBelow={680}
          heads={[
            { text: t.site, plain: true },
            { text: t.state, plain: true },
            { text: t.failures, number: true },
            { text: t.lastError },
            { text: t.used },
            { text: t.changed },
            { text: "" },
          ]}
        >
          {cookies.data?.map((cookie) => (
            <CookieRow key={`${cookie.tenant_id} ${cookie.site}`} cookie={cookie} />
          ))}
        </Rows>
      )}
      {putting ? <PutCookieDialog onClose={() => setPutting(false)} /> : null}
    </Panel>
  );
}

function CookieRow({ cookie }: { cookie: SiteCookie }) {
  const t = useTexts();
  const words = t.subscriptions.cookies;
  const ask = useAsk();
  const enabling = useMutation({
    mutationFn: () => enableCookie(cookie),
    onSuccess: () => confirmDone(words.enabled(cookie.site)),
    onError: (error) => complain(error, t),
  });
  const removing = useMutation({
    mutationFn: () => deleteCookie(cookie),
    onSuccess: () => confirmDone(words.removed(cookie.site)),
    onError: (error) => complain(error, t),
  });
  const remove = async () => {
    const title = words.removeTitle(cookie.site);
    if (await ask({ title, body: words.removeAbout, yes: words.remove, danger: true })) removing.mutate();
  };
  const [word, tone, about] = cookie.disabled_at
    ? [words.disabled, "alarm", words.disabledAbout]
    : cookie.last_warned_at
      ? [words.warned, "warn", words.warnedAbout]
      : [words.good, "good", null];
  return (
    <tr>
      <th scope="row" data-long>
        <Name of={cookie.site} />
      </th>
      <td className={classes.state} data-tone={tone}>
        <Tooltip label={about} disabled={!about} multiline maw={320}>
          <span>{word}</span>
        </Tooltip>
      </td>
      <td data-number>{cookie.failures}</td>
      <td data-long>{cookie.last_error}</td>
      <td>
        <Ago at={cookie.used_at} none={words.never} />
      </td>
      <td>
        <Ago at={cookie.changed_at} />
      </td>
      <td data-actions>
        {cookie.disabled_at ? (
          <RowButton
            label={words.enableOf(cookie.site)}
            face={words.enable}
            loading={enabling.isPending}
            onClick={() => enabling.mutate()}
          />
        ) : null}
        <RowButton
          label={words.removeOf(cookie.site)}
          face={words.remove}
          danger
          loading={removing.isPending}
          onClick={() => void remove()}
        />
      </td>
    </tr>
  );
}

function PutCookieDialog({ onClose }: { onClose: () => void }) {
  const t = useTexts();
  const words = t.subscriptions.cookies;
  const [site, setSite] = useState("");
  const [content, setContent] = useState("");
  const putting = useMutation({
    mutationFn: () => putCookie(site.trim(), content),
    gcTime: 0, // what was put is not kept here
    onSuccess: (cookie) => {
      confirmDone(words.stored(cookie.site));
      onClose();
    },
  });
  return (
    <Dialog onClose={onClose} title={words.put}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          putting.mutate();
        }}
      >
        <Stack gap="sm">
          <TextInput
            label={words.site}
            description={words.siteAbout}
            value={site}
            maxLength={253}
            onChange={(event) => setSite(event.currentTarget.value)}
            required
            data-autofocus
          />
          <Textarea
            label={words.content}
            description={words.contentAbout}
            value={content}
            rows={6}
            autoComplete="off"
            spellCheck={false}
            onChange={(event) => setContent(event.currentTarget.value)}
            required
          />
          {putting.error ? <ProblemNote error={putting.error} /> : null}
          <Group justify="flex-end" gap="xs">
            <Button variant="default" onClick={onClose}>
              {t.common.cancel}
            </Button>
            <Button type="submit" disabled={!site.trim() || !content.trim()} loading={putting.isPending}>
              {words.put}
            </Button>
          </Group>
        </Stack>
      </form>
    </Dialog>
  );
}
