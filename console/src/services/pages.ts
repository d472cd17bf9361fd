interface Found {
  items: unknown[];
  next_cursor: number | null;
}

/**
 * The first page behind `cursor` with something on it, or the last one.
 *
 * The server examines a limited number at a time: a page may be empty without being the last.
 */
export async function nextFilled<P extends Found>(
  cursor: number | null,
  ask: (cursor: number | null) => Promise<P>,
): Promise<P> {
  let page = await ask(cursor);
  while (page.items.length === 0 && page.next_cursor !== null) page = await ask(page.next_cursor);
  return page;
}
