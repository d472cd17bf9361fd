import { useQuery } from "@tanstack/react-query";
import { EVERYTHING, pausesQuery, sameSubject } from "@/services/pauses";
import { useTexts } from "@/texts";
import { PauseButton } from "./PauseButton";

/** Pause every lane of the server, after confirmation; or resume them. */
export function PauseEverything() {
  const words = useTexts().acts.everything;
  const pauses = useQuery(pausesQuery).data;
  if (!pauses) return null;
  const pause = pauses.find((each) => sameSubject(each, EVERYTHING));
  return <PauseButton subject={EVERYTHING} pause={pause} labels={words} about={words.ask} />;
}
