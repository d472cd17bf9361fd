"""How wide the columns of a table are, and which are left out, where a terminal is too narrow for all of it."""

from collections.abc import Mapping, Sequence

GAP = 2  # between columns
SHORT = 20  # a column no wider than this is never cut: ids, states, numbers and times are not
NARROWEST = 10  # that a longer one is cut to


def column_widths(natural: Sequence[int], available: int, drop: Sequence[int] = ()) -> dict[int, int]:
    """The width of each visible column, by its position, in a line of `available` characters.

    Long columns are cut first, the longest most. If that is not enough, columns are left out in the order of `drop`.
    The first column, which identifies the row, is never cut or left out.
    """
    shown = dict(enumerate(natural))
    widths = _cut(shown, available)
    for place in drop:
        if _total(widths) <= available:
            break
        del shown[place]
        widths = _cut(shown, available)
    return widths


def _cut(natural: Mapping[int, int], available: int) -> dict[int, int]:
    long = [place for place, width in natural.items() if place and width > SHORT]
    widths = dict(natural) | {place: min(natural[place], max(available, NARROWEST)) for place in long}
    while long and _total(widths) > available:
        widest = max(long, key=lambda place: widths[place])
        if widths[widest] == NARROWEST:
            break
        widths[widest] -= 1
    return widths


def _total(widths: Mapping[int, int]) -> int:
    return sum(widths.values()) + GAP * (len(widths) - 1)
