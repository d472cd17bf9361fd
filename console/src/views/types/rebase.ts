import type { TaskType, TypeIn } from "@/services/types";
import { bodyOf, type Draft, draftOf } from "./draft";

/**
 * What is sent for a type that may have changed elsewhere since `before` was opened: the type as it is now, with
 * what this person changed on top of it, and nothing else.
 */
export function rebased(draft: Draft, before: TaskType, now: TaskType): TypeIn {
  const opened = bodyOf(draftOf(before), before);
  const wanted = bodyOf(draft, before);
  const current = bodyOf(draftOf(now), now);
  return {
    ...changed(opened, wanted, current),
    config: {
      ...changed(opened.config, wanted.config, current.config),
      // Each receiver, and the key with its secret, is one thing: halves of two people's make none.
      callback: changed(opened.config?.callback, wanted.config?.callback, current.config?.callback),
    },
  };
}

/** `current`, word by word, with what differs between `opened` and `wanted`; a word that was taken out is taken out. */
function changed<T extends object>(opened: T | undefined, wanted: T | undefined, current: T | undefined): T {
  const [old, fresh] = [new Map(Object.entries(opened ?? {})), new Map(Object.entries(wanted ?? {}))];
  const result = new Map<string, unknown>(Object.entries(current ?? {}));
  for (const word of [...old.keys(), ...fresh.keys()]) {
    if (isSame(old.get(word), fresh.get(word))) continue;
    if (fresh.has(word)) result.set(word, fresh.get(word));
    else result.delete(word);
  }
  return Object.fromEntries(result) as T;
}

function isSame(one: unknown, other: unknown): boolean {
  return one === other || JSON.stringify(one) === JSON.stringify(other);
}
