import { Fragment } from "react";

const AFTER_PUNCTUATION = /(?<=[_.:/-])/;

/** A name of a type, a lane, a host: too long for its place, it breaks behind a sign and not within a word. */
export function Name({ of }: { of: string }) {
  let begin = 0;
  return of.split(AFTER_PUNCTUATION).map((part) => {
    const key = begin;
    begin += part.length;
    return (
      <Fragment key={key}>
        {key > 0 ? <wbr /> : null}
        {part}
      </Fragment>
    );
  });
}
