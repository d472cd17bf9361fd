"""What has to be done again and again, so that nothing stands still. Any number of processes may do it at once."""

from headgate.duties.archive import Archive
from headgate.duties.callbacks import Callbacks
from headgate.duties.calls import Calls
from headgate.duties.compensate import Compensate
from headgate.duties.due import Due
from headgate.duties.families import Families
from headgate.duties.lines import Lines
from headgate.duties.periodic import Periodic
from headgate.duties.reaper import Reaper
from headgate.duties.sampler import Sampler
from headgate.outward.client import Outward
from headgate.service import Aside, Service
from headgate.settings import Settings
from headgate.store.base import Store

__all__ = [
    "Archive",
    "Callbacks",
    "Calls",
    "Compensate",
    "Due",
    "Families",
    "Lines",
    "Periodic",
    "Reaper",
    "Sampler",
    "all_duties",
    "light_duties",
]


def light_duties(store: Store, settings: Settings, aside: Aside) -> list[Service]:
    """What every worker does besides its tasks: with workers alone nothing stands still."""
    return [Due(store, aside), Reaper(store, settings, aside), Families(store, aside), Lines(store, aside)]


def all_duties(store: Store, settings: Settings, aside: Aside) -> list[Service]:
    """The light duties, and those that one process for all is enough for."""
    calls = Calls(store, Outward(settings.callback_allow), aside)
    return [
        *light_duties(store, settings, aside),
        Periodic(store, aside, calls.wake),
        calls,
        Callbacks(store, settings, aside),
        Compensate(store, settings, aside),
        Sampler(store, aside),
        Archive(store, settings, aside),
    ]
