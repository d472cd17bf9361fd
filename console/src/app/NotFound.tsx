import { IconMapPinOff } from "@tabler/icons-react";
import { Empty } from "@/parts/Empty";
import { LinkText } from "@/parts/links";
import { useTexts } from "@/texts";

export function NotFound() {
  const t = useTexts().app;
  return (
    <Empty icon={IconMapPinOff} title={t.noSuchPage}>
      <LinkText to="/">{t.toTheOverview}</LinkText>
    </Empty>
  );
}
