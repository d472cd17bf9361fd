import { Button } from "@mantine/core";
import { IconPlayerPause, IconPlayerPlay } from "@tabler/icons-react";
import { useMutation, useQuery } from "@tanstack/react-query";
import { lanesQuery, pauseEverything } from "@/services/lanes";
import { useTexts } from "@/texts";
import { useAsk } from "./Ask";
import { complain, confirmDone } from "./problems";

/** Hold every lane of the server, after asking; or let them go on. */
export function PauseEverything() {
  const t = useTexts();
  const words = t.acts.everything;
  const ask = useAsk();
  const { data } = useQuery(lanesQuery);
  const paused = data?.everything_paused ?? false;
  const change = useMutation({
    mutationFn: pauseEverything,
    onSuccess: (_, now) =>
      confirmDone(now ? words.paused : words.resumed, now ? () => change.mutate(false) : undefined),
    onError: (error) => complain(error, t),
  });
  if (!data) return null;
  const label = paused ? words.resume : words.pause;
  const start = async () => {
    if (paused || (await ask({ title: label, body: words.ask, yes: label }))) change.mutate(!paused);
  };
  return (
    <Button
      variant="default"
      leftSection={paused ? <IconPlayerPlay size={14} /> : <IconPlayerPause size={14} />}
      loading={change.isPending}
      onClick={() => void start()}
    >
      {label}
    </Button>
  );
}
