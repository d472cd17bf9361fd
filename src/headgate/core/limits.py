"""Limits as programs and settings declare them, and token buckets as arithmetic.

A bucket is one number, `tat`: the time in seconds at which it would be full again. It is compared, never counted
down, so there is nothing to refill and nothing to drift: the generic cell rate algorithm on plain numbers.
"""

import math
from dataclasses import dataclass
from enum import StrEnum

from headgate.core.errors import Invalid
from headgate.core.task import check_lane, check_name

DEFAULT_KEY = "key:*"  # the rate limit of every key that has none of its own
DISK_WRITER = "disk-writer"  # a resource that every store has, for tasks that write a lot to disk
BUILT_IN_RESOURCES = frozenset({DISK_WRITER})
PREFIXES = ("lane:", "type:", "key:")  # how a rate limit's name begins
MAX_CAPACITY = 1_000_000
MAX_RATE = 100_000.0  # per second; the clock cannot tell finer
NO_LIMIT = "none"  # how settings say that there is no limit
_EPSILON = 1e-6  # times are kept to the microsecond


@dataclass(frozen=True, slots=True)
class Rate:
    """`rate` tokens a second, `burst` at most at once."""

    rate: float = 10.0
    burst: int = 20

    def __post_init__(self) -> None:
        if not 0 < self.rate <= MAX_RATE or self.burst < 1:
            raise Invalid.of("bad-rate", most=MAX_RATE)


USUAL_MOST_NAMES = 10_000


@dataclass(frozen=True, slots=True)
class MostNames:
    """How many names the tasks of one tenant may make up: streams, which are combinations of lane, type, category, rate
    key and agent, and as many resources that handlers hold. None is no limit."""

    of_tenant: int | None = USUAL_MOST_NAMES
    of_nobody: int | None = None  # tenant 0

    def of(self, tenant_id: int) -> int | None:
        return self.of_tenant if tenant_id else self.of_nobody


def most_names(setting: str, text: str) -> MostNames:
    """As settings have it: a number for every tenant, or `none`; without it tenant 0 has no limit."""
    if not text.strip():
        return MostNames()
    if text.strip() == NO_LIMIT:
        return MostNames(None, None)
    try:
        if (most := int(text)) < 1:
            raise ValueError(text)
    except ValueError:
        raise Invalid(f"{setting}: {text!r} is not a number above 0, or {NO_LIMIT}") from None
    return MostNames(most, most)


class LimitSource(StrEnum):
    """Who set a limit, the weakest first: a source never replaces the limit of a stronger one."""

    DEFAULT = "default"  # not set
    PACK = "pack"
    PROGRAM = "program"
    SETTINGS = "settings"
    PERSON = "person"

    @property
    def replaces(self) -> list[str]:
        """The sources whose limits this one replaces, its own among them."""
        sources = list(LimitSource)
        return [str(source) for source in sources[: sources.index(self) + 1]]


class DeclaredLimits:
    """The limits that a program, or its settings, declares. None is no limit."""

    def __init__(self) -> None:
        self.lanes: dict[str, int | None] = {}
        self.resources: dict[str, int] = {}
        self.rates: dict[str, Rate | None] = {}
        self.edition = 0  # moves with every limit that is declared

    def lane(self, name: str, capacity: int | None) -> None:
        check_name("lane", name)
        check_lane(name)
        if capacity is not None:
            check_capacity(capacity)
        self.lanes[name] = capacity
        self.edition += 1

    def resource(self, name: str, capacity: int) -> None:
        check_resource(name)
        check_capacity(capacity)
        self.resources[name] = capacity
        self.edition += 1

    def rate_limit(self, name: str, limit: Rate | None) -> None:
        check_rate_name(name)
        self.rates[name] = limit
        self.edition += 1

    def add(self, other: "DeclaredLimits") -> None:
        """Add the limits of another declaration; those declared here stay."""
        self.lanes = other.lanes | self.lanes
        self.resources = other.resources | self.resources
        self.rates = other.rates | self.rates
        self.edition += other.edition


def declared_in_settings(lanes: str, resources: str, rate_limits: str) -> DeclaredLimits:
    """Limits as settings have them: `mail=5,media=none`, `gpu=1`, `key:openai=5/10` (rate and burst)."""
    declared = DeclaredLimits()
    for setting, text in (("lanes", lanes), ("resources", resources), ("rate_limits", rate_limits)):
        for item in filter(None, (part.strip() for part in text.split(","))):
            name, _, value = (part.strip() for part in item.rpartition("="))
            try:
                _declare(declared, setting, name, value)
            except ValueError:
                form = "NAME=RATE/BURST" if setting == "rate_limits" else "NAME=CAPACITY"
                raise Invalid(f"{setting}: {item!r} is not {form}") from None
            except Invalid as error:
                raise Invalid(f"{setting}: {item!r}: {error}") from None
    return declared


def _declare(declared: DeclaredLimits, setting: str, name: str, value: str) -> None:
    if setting == "resources":
        declared.resource(name, int(value))
    elif setting == "lanes":
        declared.lane(name, None if value == NO_LIMIT else int(value))
    elif value == NO_LIMIT:
        declared.rate_limit(name, None)
    else:
        rate, _, burst = value.partition("/")
        declared.rate_limit(name, Rate(float(rate), int(burst)))


def check_capacity(capacity: int) -> None:
    """Raise `Invalid` unless `capacity` is a valid number of tasks to run at once."""
    if type(capacity) is not int or not 0 <= capacity <= MAX_CAPACITY:
        raise Invalid.of("bad-capacity", most=MAX_CAPACITY)


def check_resource(name: str) -> None:
    """Raise `Invalid` unless this may be the name of a resource."""
    check_name("resource", name)
    if name.startswith(PREFIXES):
        raise Invalid(
            f"{name} is the name of a rate limit, which has a rate and a burst; name a resource without a prefix"
        )


def check_rate_name(name: str) -> None:
    """Raise `Invalid` unless this may be the name of a rate limit."""
    check_name("rate limit", name)
    if not name.startswith(PREFIXES) or not name.partition(":")[2]:
        raise Invalid.of("rate-limit-name")


def bucket_of(tenant_id: int, rate_key: str) -> str:
    """The bucket of a tenant's tasks with a key that has no limit of its own; no rate limit is named like this."""
    return f"tenant:{tenant_id} key:{rate_key}"


def limit_name(bucket: str) -> str:
    """The name that people know a bucket by: without its tenant."""
    return bucket.partition(" ")[2] if bucket.startswith("tenant:") else bucket


def bounded(limit: Rate, tat: float, now: float) -> float:
    """A bucket's `tat`, at most as far ahead as an empty bucket takes to fill: only a clock set back leaves it further.

    A caller that finds it further ahead writes the bound back, or it would find it there every time.
    """
    return min(tat, now + limit.burst / limit.rate)


def tokens(limit: Rate, tat: float, now: float) -> int:
    """How many may start now."""
    ahead = max(bounded(limit, tat, now) - now, 0.0)
    return max(math.floor(limit.burst - ahead * limit.rate + _EPSILON * limit.rate), 0)


def take(limit: Rate, tat: float, now: float, count: int) -> float:
    """The bucket's `tat` after `count` more have started."""
    return max(bounded(limit, tat, now), now) + count / limit.rate


def next_token_at(limit: Rate, tat: float, now: float, count: int = 1) -> float:
    """When the next one, or so many at once, may start; `now` if at once."""
    return max(now, bounded(limit, tat, now) - (limit.burst - count) / limit.rate)
