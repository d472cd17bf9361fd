import { useState } from "react";
import { COLUMNS, type ColumnId, USUAL } from "./columns";

const KEY = "headgate-task-columns";

/** Which columns are shown; this browser remembers. */
export function useColumns(): [ColumnId[], (shown: ColumnId[]) => void] {
  const [shown, setShown] = useState(remembered);
  return [
    shown,
    (next) => {
      localStorage.setItem(KEY, next.join(" "));
      setShown(next);
    },
  ];
}

function remembered(): ColumnId[] {
  const said = localStorage.getItem(KEY)?.split(" ");
  const known = COLUMNS.map((column) => column.id).filter((id) => said?.includes(id));
  return known.length > 0 ? known : USUAL;
}
