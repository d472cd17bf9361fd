import { createContext, type ReactNode, use, useContext, useMemo, useState } from "react";
import type { Texts } from "./en";

export type { Texts } from "./en";
export type Language = "en" | "zh";
export const LANGUAGES: Record<Language, string> = { en: "English", zh: "中文" };

const KEY = "headgate-language";
const LOADED: Record<Language, () => Promise<Texts>> = {
  en: () => import("./en").then((module) => module.en),
  zh: () => import("./zh").then((module) => module.zh),
};
const loading = new Map<Language, Promise<Texts>>();

/** A language's texts: asked for once, and only when somebody reads it. */
export function load(language: Language): Promise<Texts> {
  const known = loading.get(language) ?? LOADED[language]();
  loading.set(language, known);
  return known;
}

interface Spoken {
  language: Language;
  t: Texts;
  speak: (language: Language) => void;
}

export const TextsContext = createContext<Spoken | null>(null);

export function TextsProvider({ children }: { children: ReactNode }) {
  const [language, setLanguage] = useState(chosen);
  const t = use(load(language));
  const spoken = useMemo(() => {
    document.documentElement.lang = language;
    const speak = (next: Language) => {
      localStorage.setItem(KEY, next);
      void load(next).then(() => setLanguage(next));
    };
    return { language, t, speak };
  }, [language, t]);
  return <TextsContext value={spoken}>{children}</TextsContext>;
}

function chosen(): Language {
  const said = localStorage.getItem(KEY) ?? navigator.language;
  return said.toLowerCase().startsWith("zh") ? "zh" : "en";
}

export function useSpoken(): Spoken {
  const spoken = useContext(TextsContext);
  if (!spoken) throw new Error("no TextsProvider");
  return spoken;
}

/** Every text, in the language that is spoken. */
export function useTexts(): Texts {
  return useSpoken().t;
}
