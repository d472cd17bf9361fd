"""Pauses: what one holds does not start until a person ends the pause or its time is over."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, StrEnum

from headgate.core.errors import Invalid
from headgate.core.reasons import Param, paused_subject, text_of
from headgate.core.task import check_lane, check_name


class PauseScope(StrEnum):
    """What a pause holds."""

    ALL = "all"
    LANE = "lane"
    TYPE = "type"
    TENANT = "tenant"
    KEY = "key"  # a rate key


_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,18}")
PauseKey = tuple[str, str]  # scope and name
EVERYTHING_PAUSED: PauseKey = (PauseScope.ALL, "")
UNNAMED = "person"  # an actor without a name


class Unchanged(Enum):
    """In place of the reason or the end of a pause: what it has already, or none if it is new."""

    UNCHANGED = "unchanged"


UNCHANGED = Unchanged.UNCHANGED


@dataclass(frozen=True, slots=True)
class Pause:
    """What is paused, why, by whom, since when, and until when; None: until a person ends it."""

    scope: PauseScope
    name: str  # of the lane, type or key, or the tenant's number; empty for everything
    reason: str
    actor: str
    at: datetime
    until: datetime | None = None

    @property
    def key(self) -> PauseKey:
        return (self.scope, self.name)

    @property
    def params(self) -> dict[str, Param]:
        """The values of the reason `paused`."""
        actor = None if self.actor == UNNAMED else self.actor
        return {"scope": str(self.scope), "name": self.name or None, "reason": self.reason or None, "actor": actor}

    @property
    def subject(self) -> str:
        """What it holds: `everything`, `lane mail`."""
        return paused_subject(self.params)

    @property
    def text(self) -> str:
        """What is paused, by whom and why."""
        return text_of("paused", self.params)


def keys_of(tenant_id: int, lane: str, type_code: str, rate_key: str | None) -> tuple[PauseKey, ...]:
    """The pauses that would hold such a task."""
    keys = (EVERYTHING_PAUSED, ("lane", lane), ("type", type_code), ("tenant", str(tenant_id)))
    return (*keys, ("key", rate_key)) if rate_key else keys


def last_to_end(pauses: Sequence[Pause]) -> Pause | None:
    """The pause that holds longest."""
    endless = [pause for pause in pauses if pause.until is None]
    return endless[0] if endless else max(pauses, key=lambda pause: pause.until or pause.at, default=None)


def check_pause(scope: PauseScope, name: str) -> None:
    """Raise `Invalid` unless it names something that can be paused."""
    if scope is PauseScope.ALL:
        if name:
            raise Invalid("a pause of everything has no name")
        return
    check_name(str(scope), name)
    if scope is PauseScope.LANE:
        check_lane(name)
    if scope is PauseScope.TENANT and not _INTEGER.fullmatch(name):
        raise Invalid(f"a tenant must be a whole number, not {name!r}")


def parse_pause(text: str) -> PauseKey:
    """`all`, `lane:NAME`, `type:CODE`, `tenant:ID` or `key:NAME` as scope and name."""
    word, _, name = text.partition(":")
    if word not in list(PauseScope):
        raise Invalid.of("pause-scope")
    check_pause(PauseScope(word), name)
    return (word, name)
