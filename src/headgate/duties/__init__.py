"""Recurring jobs of the engine, so that nothing stands still. Any number of processes may do them at once."""

from collections.abc import Iterator

from headgate.duties.archive import Archive
from headgate.duties.callbacks import Callbacks
from headgate.duties.calls import Calls
from headgate.duties.compensate import Compensate
from headgate.duties.dispatcher import Dispatcher
from headgate.duties.due import BringDue
from headgate.duties.duty import Duty
from headgate.duties.families import CloseFamilies
from headgate.duties.family_progress import TellFamilyProgress
from headgate.duties.reaper import Reaper
from headgate.duties.relay import Relay
from headgate.duties.repair_mutexes import RepairMutexes
from headgate.duties.sampler import Sampler
from headgate.duties.schedules import FireSchedules
from headgate.duties.unsent_callbacks import UnsentCallbacks
from headgate.duties.unused_streams import RemoveUnusedStreams
from headgate.pack import find_packs, load_object
from headgate.settings import Settings
from headgate.store.store import Store
from headgate.threads import InThread

__all__ = [
    "Archive",
    "BringDue",
    "Callbacks",
    "Calls",
    "CloseFamilies",
    "Compensate",
    "Dispatcher",
    "FireSchedules",
    "Reaper",
    "Relay",
    "RemoveUnusedStreams",
    "RepairMutexes",
    "Sampler",
    "TellFamilyProgress",
    "UnsentCallbacks",
    "all_duties",
    "light_duties",
    "worker_duties",
]


LIGHT = (BringDue, Reaper, CloseFamilies, TellFamilyProgress, RepairMutexes)


def light_duties(store: Store, settings: Settings, in_thread: InThread) -> list[Duty]:
    """What every worker does besides its tasks: with workers alone nothing stands still."""
    return [duty(store, settings, in_thread) for duty in LIGHT]


def worker_duties(store: Store, settings: Settings, in_thread: InThread) -> list[Duty]:
    """The light duties, and a watch for what they leave undone where no other process runs."""
    return [*light_duties(store, settings, in_thread), UnsentCallbacks(store, settings, in_thread)]


def all_duties(store: Store, settings: Settings, in_thread: InThread) -> list[Duty]:
    """The light duties, and those that one process for all is enough for; with a broker what feeds it, and of packs."""
    calls = Calls(store, settings, in_thread)
    by_broker = (Dispatcher, Relay) if settings.broker else ()
    return [
        *light_duties(store, settings, in_thread),
        FireSchedules(store, settings, in_thread, calls.wake),
        calls,
        *(
            duty(store, settings, in_thread)
            for duty in (Callbacks, Compensate, Sampler, Archive, RemoveUnusedStreams, *by_broker, *_of_packs(settings))
        ),
    ]


def _of_packs(settings: Settings) -> Iterator[type[Duty]]:
    for pack in find_packs(settings.pack_names):
        if pack.duties:
            yield from load_object(f"pack {pack.name}", pack.duties)
