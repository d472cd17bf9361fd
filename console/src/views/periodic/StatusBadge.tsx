import badge from "@/parts/StateBadge.module.css";
import { type ScheduleStatus, STATUS_TONES } from "@/services/periodic";
import { useTexts } from "@/texts";

/** Whether a schedule fires. */
export function StatusBadge({ status }: { status: ScheduleStatus }) {
  const t = useTexts().periodic;
  return (
    <span className={badge.badge} data-tone={STATUS_TONES[status]} title={t.statusAbout[status]}>
      {t.status[status]}
    </span>
  );
}
