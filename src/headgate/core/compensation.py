"""Start compensation, as arithmetic: how long to wait between two searches for lost starts.

The wait begins at a base, grows by a step each time nothing is found, up to a maximum, and returns to the base when
something is found. A poll is skipped while the start queue holds work, since what waits there is limited and not lost;
but only `max_skips` times in a row, or under steady load lost starts would never be found.
"""

from dataclasses import dataclass, fields, replace

from headgate.core.errors import Invalid
from headgate.core.starts import START_SECONDS

MAX_SECONDS = 86_400.0
MAX_MULTIPLIER = 1_000_000  # where the interval never comes to its maximum


@dataclass(frozen=True, slots=True)
class CompensationSettings:
    """Everything about compensation that can be set, in seconds; `max_skips` are polls."""

    base: float = 10.0
    step: float = 10.0
    max: float = 300.0
    threshold: float = 30.0  # how long a task may be handed over without its start being confirmed
    start_interval: float = START_SECONDS
    status_seconds: float = 60.0
    max_skips: int = 6

    def __post_init__(self) -> None:
        for setting in fields(self):
            if not getattr(self, setting.name) <= MAX_SECONDS:  # a NaN is not, either
                raise Invalid(f"compensation_{setting.name} must be at most {MAX_SECONDS:g}")
        for name in ("base", "threshold", "status_seconds"):
            if not getattr(self, name) > 0:
                raise Invalid(f"compensation_{name} must be above 0")
        for name in ("step", "start_interval", "max_skips"):
            if getattr(self, name) < 0:
                raise Invalid(f"compensation_{name} must be at least 0")
        if self.max < self.base:
            raise Invalid("compensation_max must be at least compensation_base")


@dataclass(frozen=True, slots=True)
class Polling:
    """How far the polling is: the interval as a multiplier, and how many polls were skipped in a row."""

    multiplier: int = 1
    skips: int = 0

    def interval(self, settings: CompensationSettings) -> float:
        """Seconds between two polls."""
        return min(self._grown(settings), settings.max)

    def wait(self, settings: CompensationSettings) -> float:
        """Seconds until the next poll. A skipped poll is repeated after the base: skips must not add up to 7 maxima."""
        return settings.base if self.skips else self.interval(settings)

    def may_skip(self, settings: CompensationSettings) -> bool:
        return self.skips < settings.max_skips

    def skipped(self) -> "Polling":
        """The state after a skipped poll."""
        return replace(self, skips=self.skips + 1)

    def polled(self, found: int, settings: CompensationSettings) -> "Polling":
        """The state after a poll that found `found` lost starts."""
        if found:
            return Polling()
        grows = self._grown(settings) < settings.max and self.multiplier < MAX_MULTIPLIER
        return Polling(self.multiplier + 1 if grows else self.multiplier)

    def _grown(self, settings: CompensationSettings) -> float:
        return settings.base + (self.multiplier - 1) * settings.step
