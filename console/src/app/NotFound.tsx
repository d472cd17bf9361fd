import { Anchor } from "@mantine/core";
import { IconMapPinOff } from "@tabler/icons-react";
import { Link } from "@tanstack/react-router";
import { Empty } from "@/parts/Empty";
import { useTexts } from "@/texts";

export function NotFound() {
  const t = useTexts().app;
  return (
    <Empty icon={IconMapPinOff} title={t.noSuchPage}>
      <Anchor component={Link} to="/">
        {t.toTheOverview}
      </Anchor>
    </Empty>
  );
}
