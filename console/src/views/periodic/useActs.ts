import { useMutation } from "@tanstack/react-query";
import { useAsk } from "@/parts/Ask";
import { complain, confirmDone } from "@/parts/problems";
import { removeSchedule, setOnline, trigger } from "@/services/periodic";
import { useTexts } from "@/texts";

/** What can be done with a schedule, with the words that say so. */
export function useActs(id: number) {
  const t = useTexts();
  const words = t.periodic;
  const ask = useAsk();
  const onError = (error: unknown) => complain(error, t);
  const turn = useMutation({
    mutationFn: (online: boolean) => setOnline(id, online),
    onSuccess: (_, online) => confirmDone(online ? words.wentOnline : words.wentOffline),
    onError,
  });
  const fire = useMutation({
    mutationFn: () => trigger(id),
    onSuccess: ({ task_id }) => confirmDone(words.triggered(task_id)),
    onError,
  });
  const forget = useMutation({
    mutationFn: () => removeSchedule(id),
    onSuccess: () => confirmDone(words.removed),
    onError,
  });
  const remove = async (done: () => void) => {
    const yes = await ask({ title: words.remove, body: words.removeAsk, yes: words.remove, danger: true });
    if (yes) forget.mutate(undefined, { onSuccess: done });
  };
  return { turn, fire, remove };
}
