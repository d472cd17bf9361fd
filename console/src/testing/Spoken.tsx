import type { ReactNode } from "react";
import { TextsContext } from "@/texts";
import { en } from "@/texts/en";

/** The texts in English, at once. */
export function Spoken({ children }: { children: ReactNode }) {
  return <TextsContext value={{ language: "en", t: en, speak: () => {} }}>{children}</TextsContext>;
}
