import { type ReactNode, useCallback, useEffect, useRef, useState } from "react";
import classes from "./Scrolls.module.css";

/** What may be wider than the screen: a shadow at an edge says that there is more behind it. */
export function Scrolls({ children }: { children: ReactNode }) {
  const frame = useRef<HTMLDivElement>(null);
  const [more, setMore] = useState("no");
  const look = useCallback(() => {
    if (!frame.current) return;
    const { scrollLeft, clientWidth, scrollWidth } = frame.current;
    const left = scrollLeft > 1;
    const right = scrollLeft + clientWidth < scrollWidth - 1;
    setMore(left && right ? "both" : left ? "left" : right ? "right" : "no");
  }, []);
  useEffect(look);
  useEffect(() => {
    const watch = new ResizeObserver(look);
    if (frame.current) watch.observe(frame.current);
    return () => watch.disconnect();
  }, [look]);
  return (
    <div className={classes.frame} ref={frame} onScroll={look} data-scrolls data-more={more}>
      {children}
    </div>
  );
}
