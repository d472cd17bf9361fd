import { Alert, Button, PasswordInput, Text, Title } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { ProblemNote } from "@/parts/ProblemNote";
import { Problem } from "@/services/problem";
import { sessionQuery, signIn } from "@/services/session";
import { useTexts } from "@/texts";
import { Brand } from "./Brand";
import classes from "./Login.module.css";
import { LanguageSwitch } from "./preferences";

export function Login() {
  const t = useTexts().login;
  const client = useQueryClient();
  const [key, setKey] = useState("");
  const entering = useMutation({
    mutationFn: signIn,
    onSuccess: (session) => client.setQueryData(sessionQuery.queryKey, session),
  });
  const wrong = entering.error instanceof Problem && entering.error.status === 401;

  return (
    <main className={classes.page}>
      <form
        className={classes.card}
        onSubmit={(event) => {
          event.preventDefault();
          entering.mutate(key);
        }}
      >
        <Brand />
        <Title order={1}>{t.title}</Title>
        {window.isSecureContext ? null : (
          <Alert color="yellow" title={t.insecureTitle}>
            {t.insecure}
          </Alert>
        )}
        <PasswordInput
          label={t.key}
          description={t.keyAbout}
          placeholder="hg_…"
          value={key}
          onChange={(event) => setKey(event.currentTarget.value)}
          error={wrong ? t.wrong : undefined}
          autoComplete="current-password"
          autoFocus
          required
        />
        {entering.error && !wrong ? <ProblemNote error={entering.error} /> : null}
        <Button type="submit" size="sm" loading={entering.isPending}>
          {t.enter}
        </Button>
        <Text size="xs" c="dimmed">
          {t.howToGetOne} <code>headgate keys create NAME --role operator</code>
        </Text>
        <LanguageSwitch />
      </form>
    </main>
  );
}
