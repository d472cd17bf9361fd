import type { Scope } from "@/services/pauses";

const SCOPES = { all: "everything", lane: "lane", type: "type", tenant: "tenant", key: "rate key" };

export const pauses = {
  title: "Pauses",
  subject: (scope: Scope, name: string) => (name ? `${SCOPES[scope]} ${name}` : SCOPES[scope]),
  pause: (subject: string) => `Pause ${subject}`,
  resume: (subject: string) => `Resume ${subject}`,
  faces: { pause: "Pause", resume: "Resume" },
  isPaused: (subject: string) => `${capital(subject)} is paused`,
  isResumed: (subject: string) => `${capital(subject)} resumed`,
  about: (subject: string) => `No more tasks of ${subject} will start. Running tasks continue.`,
  paused: "Paused",
  pausedBy: (actor: string) => `Paused by ${actor}`,
  ends: "ends",
  reason: "Reason",
  reasonAbout: "Shown wherever a task waits because of the pause.",
  until: "Until",
  untilResumed: "someone resumes it",
  forHours: (hours: number) =>
    hours < 1 ? `${hours * 60} minutes from now` : hours === 1 ? "1 hour from now" : `${hours} hours from now`,
  untilTime: "a time I choose",
  endsAt: "Ends at",
  endPast: "The end must be in the future.",
  new: "Pause …",
  unnamed: "Pause",
  newAbout: "No more of its tasks will start. Running tasks continue.",
  what: "What",
  whats: { all: "Everything", lane: "A lane", type: "A task type", tenant: "A tenant", key: "A rate key" } as Record<
    Scope,
    string
  >,
  name: "Name",
  tenantNumber: "Tenant number",
  none: "Nothing is paused.",
  columns: { what: "What", why: "Reason", by: "By", since: "Since", until: "Ends" },
  noEnd: "no end",
};

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
