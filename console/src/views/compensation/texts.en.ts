export const compensation = {
  title: "Compensation",
  about: "The search for starts that agents never confirmed",
  trigger: "Look now",
  found: (count: number) =>
    count === 0 ? "No start was lost" : count === 1 ? "1 lost start found" : `${count} lost starts found`,
  next: "Next poll",
  due: "now",
  left: (seconds: number) => (seconds < 100 ? `${seconds} s` : `${Math.floor(seconds / 60)} min ${seconds % 60} s`),
  never: "nobody polls",
  neverAbout: "A process that does the duties polls: headgate up, serve or duties.",
  last: "Last poll",
  lastNone: "There was none yet.",
  queue: "In the start queues",
  queueMany: "10,000+",
  queueAbout: "Assigned tasks that wait to be handed to their agents.",
  interval: "Interval",
  multiplier: (times: number) =>
    times === 1
      ? "Multiplier 1: the base, as after every find."
      : `Multiplier ${times}: grown, since nothing was lost.`,
  skips: "Skipped in a row",
  skipsNone: "No poll was put off.",
  skipsAbout: "Put off because the start queues held work, which is late and not lost.",
  how: "How it works",
  steps: (threshold: string, pace: string) => [
    `A task that is assigned to an agent waits in that agent's start queue, which hands over one every ${pace}.`,
    `Handed over, it is scheduling until the agent confirms its start. After ${threshold} without that, the start counts as lost.`,
    "A poll finds lost starts and puts them into the start queue again. The old hand-over is worth nothing from then on.",
    "A poll that finds nothing makes the interval longer; one that finds something brings it back to its base.",
    "While the start queues hold work a poll is skipped, but only a few times in a row.",
  ],
};
