import { DELIVERY_TONES, type DeliveryStatus } from "@/services/callbacks";
import { useTexts } from "@/texts";
import badge from "./StateBadge.module.css";

/** What has become of a callback. */
export function DeliveryBadge({ status }: { status: DeliveryStatus }) {
  const t = useTexts().callbacks;
  return (
    <span
      className={badge.badge}
      data-tone={DELIVERY_TONES[status]}
      data-busy={status === "pending" || undefined}
      title={t.statusAbout[status]}
    >
      {t.status[status]}
    </span>
  );
}
