"""How wide the columns of a table are, and which are left out, where a terminal is too narrow for all of it."""

from collections.abc import Collection, Mapping, Sequence

GAP = 2  # between columns
SHORT = 20  # a column no wider than this is never cut: ids, states, numbers and times are not
READABLE = 24  # a longer one is cut to this, before columns are left out
NARROWEST = 10  # and to this when none are left that may be


def column_widths(natural: Sequence[int], available: int, drop: Sequence[int] = ()) -> dict[int, int]:
    """The width of each visible column, by its position, in a line of `available` characters.

    Long columns are cut first, the longest most, while they stay readable. If that is not enough, columns are left out
    in the order of `drop`, the last of them only when the others are cut to the narrowest. The first column, which
    identifies the row, is never cut or left out.
    """
    columns = dict(enumerate(natural))
    widths = _cut(columns, available, READABLE)
    for place in drop[:-1]:
        if total_width(widths.values()) <= available:
            return widths
        del columns[place]
        widths = _cut(columns, available, READABLE)
    widths = _cut(columns, available, NARROWEST)
    if drop and total_width(widths.values()) > available:
        del columns[drop[-1]]
        widths = _cut(columns, available, NARROWEST)
    return widths


def _cut(natural: Mapping[int, int], available: int, least: int) -> dict[int, int]:
    long = [place for place, width in natural.items() if place and width > max(SHORT, least)]
    widths = dict(natural) | {place: min(natural[place], max(available, least)) for place in long}
    while long and total_width(widths.values()) > available:
        widest = max(long, key=lambda place: widths[place])
        if widths[widest] == least:
            break
        widths[widest] -= 1
    return widths


def total_width(widths: Collection[int]) -> int:
    """How wide a table of such columns is."""
    return sum(widths) + GAP * (len(widths) - 1)
