import { ActionIcon, SegmentedControl, Tooltip, useComputedColorScheme, useMantineColorScheme } from "@mantine/core";
import { IconMoon, IconSun } from "@tabler/icons-react";
import { LANGUAGES, type Language, useSpoken, useTexts } from "@/texts";

export function LanguageSwitch() {
  const { language, speak, t } = useSpoken();
  return (
    <SegmentedControl
      aria-label={t.app.language}
      value={language}
      onChange={(next) => speak(next as Language)}
      data={Object.entries(LANGUAGES).map(([value, label]) => ({ value, label }))}
    />
  );
}

export function SchemeSwitch() {
  const t = useTexts().app;
  const { setColorScheme } = useMantineColorScheme({ keepTransitions: true });
  const dark = useComputedColorScheme("light") === "dark";
  const label = dark ? t.toLight : t.toDark;
  return (
    <Tooltip label={label}>
      <ActionIcon aria-label={label} onClick={() => setColorScheme(dark ? "light" : "dark")}>
        {dark ? <IconSun size={16} /> : <IconMoon size={16} />}
      </ActionIcon>
    </Tooltip>
  );
}
