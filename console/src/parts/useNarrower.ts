import { type RefObject, useLayoutEffect, useState } from "react";

/** Whether what an element stands in is narrower than this, in pixels. */
export function useNarrower(element: RefObject<HTMLElement | null>, pixels: number): boolean {
  const [narrower, setNarrower] = useState(false);
  useLayoutEffect(() => {
    const around = element.current?.parentElement;
    if (!around) return;
    const look = () => setNarrower(around.clientWidth > 0 && around.clientWidth < pixels);
    look();
    const watch = new ResizeObserver(look);
    watch.observe(around);
    return () => watch.disconnect();
  }, [element, pixels]);
  return narrower;
}
