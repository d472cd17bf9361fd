import { Button, TextInput, Tooltip } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Panel } from "@/parts/Panel";
import { complain, confirmDone } from "@/parts/problems";
import { busyQuery, REQUEST_TYPES, type RequestType, startRequest } from "@/services/requests";
import { useTexts } from "@/texts";
import { reasonAgainst } from "./busy";
import classes from "./Start.module.css";

/** Start a request for a subscription; while it has work under way, the buttons say so instead. */
export function Start() {
  const t = useTexts();
  const words = t.queue.start;
  const [subscription, setSubscription] = useState("");
  const [url, setUrl] = useState("");
  const id = subscription === "" ? null : Number(subscription);
  const busy = useQuery(busyQuery(id === null ? [] : [id])).data;
  const starting = useMutation({
    mutationFn: (type: RequestType) => startRequest({ type, subscription_id: id, url: url.trim() || null }),
    onSuccess: (made) => confirmDone(words.started(made.id)),
    onError: (error) => complain(error, t),
  });
  const against = id === null && !url.trim() ? words.needsSomething : reasonAgainst(id, busy, t.queue);
  return (
    <Panel title={words.title}>
      <div className={classes.start}>
        <TextInput
          aria-label={words.subscription}
          placeholder={words.subscription}
          inputMode="numeric"
          value={subscription}
          onChange={(event) => setSubscription(event.currentTarget.value.replace(/\D/g, "").slice(0, 15))}
          w={120}
        />
        <TextInput
          aria-label={words.url}
          placeholder={words.urlHint}
          value={url}
          maxLength={4096}
          onChange={(event) => setUrl(event.currentTarget.value)}
          className={classes.url}
        />
      </div>
      <div className={classes.start}>
        {REQUEST_TYPES.map((type) => (
          <Tooltip key={type} label={against} disabled={!against} multiline maw={320}>
            <Button
              variant="default"
              {...(against ? { "aria-disabled": true, "data-disabled": true } : {})}
              loading={starting.isPending && starting.variables === type}
              onClick={(event) => (against ? event.preventDefault() : starting.mutate(type))}
            >
              {t.queue.types[type]}
            </Button>
          </Tooltip>
        ))}
      </div>
      {against && id !== null ? (
        <p className={classes.against} role="status">
          {against}
        </p>
      ) : null}
    </Panel>
  );
}
