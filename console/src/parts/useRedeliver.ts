import { useMutation } from "@tanstack/react-query";
import { redeliver } from "@/services/callbacks";
import { useTexts } from "@/texts";
import { complain, confirmDone } from "./problems";

/** Sends a callback again, now, and says so. */
export function useRedeliver() {
  const texts = useTexts();
  return useMutation({
    mutationFn: redeliver,
    onSuccess: () => confirmDone(texts.callbacks.redelivered),
    onError: (error) => complain(error, texts),
  });
}
