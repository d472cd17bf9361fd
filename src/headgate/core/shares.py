"""The share of a server that one key, or one tenant, may use."""

from dataclasses import dataclass, fields, replace
from typing import Any

from headgate.core.errors import Invalid
from headgate.core.limits import NO_LIMIT, Rate

KEY_SHARE = "rate=1000/2000,requests=200,threads=6,polls=500,streams=100"
TENANT_SHARE = "rate=2000/4000,requests=400,threads=8,polls=1000,streams=200"


@dataclass(frozen=True, slots=True)
class ShareLimits:
    """How much of each there may be at once; of requests also how many a second. None is no limit."""

    rate: Rate | None = None
    requests: int | None = None  # under way, without long polls and streams
    threads: int | None = None  # in the store, for the requests that have a turn
    polls: int | None = None
    streams: int | None = None

    def at_most(self, polls: int, streams: int) -> "ShareLimits":
        """The same, where the whole server has fewer of what stays open for long."""
        return replace(
            self,
            polls=None if self.polls is None else min(self.polls, polls),
            streams=None if self.streams is None else min(self.streams, streams),
        )


PARTS = tuple(part.name for part in fields(ShareLimits))


def parse_share(setting: str, text: str, usual: str = "") -> ShareLimits:
    """As settings have it: `rate=500/1000,polls=none`. What is not named is as `usual`; `none` is no limit at all."""
    if text.strip() == NO_LIMIT:
        return ShareLimits()
    found = ShareLimits() if not usual else parse_share(setting, usual)
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = (part.strip() for part in item.partition("="))
        try:
            if name not in PARTS:
                raise Invalid(f"expected one of {', '.join(PARTS)}")
            limit: dict[str, Any] = {name: None if value == NO_LIMIT else _limit(name, value)}
            found = replace(found, **limit)
        except ValueError:
            form = "RATE/BURST" if name == "rate" else "NUMBER"
            raise Invalid(f"{setting}: {item!r} is not {name}={form}, or {name}={NO_LIMIT}") from None
        except Invalid as error:
            raise Invalid(f"{setting}: {item!r}: {error}") from None
    return found


def _limit(name: str, value: str) -> Rate | int:
    if name == "rate":
        rate, _, burst = value.partition("/")
        return Rate(float(rate), int(burst))
    if int(value) < 1:
        raise ValueError(value)
    return int(value)
