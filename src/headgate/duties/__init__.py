"""What has to be done again and again, so that nothing stands still. Any number of processes may do it at once."""

from headgate.duties.archive import Archive
from headgate.duties.callbacks import Callbacks
from headgate.duties.calls import Calls
from headgate.duties.compensate import Compensate
from headgate.duties.due import BringDue
from headgate.duties.families import CloseFamilies
from headgate.duties.reaper import Reaper
from headgate.duties.repair_mutexes import RepairMutexes
from headgate.duties.sampler import Sampler
from headgate.duties.schedules import FireSchedules
from headgate.outward.client import OutwardClient
from headgate.service import InThread, Service
from headgate.settings import Settings
from headgate.store.store import Store

__all__ = [
    "Archive",
    "BringDue",
    "Callbacks",
    "Calls",
    "CloseFamilies",
    "Compensate",
    "FireSchedules",
    "Reaper",
    "RepairMutexes",
    "Sampler",
    "all_duties",
    "light_duties",
]


def light_duties(store: Store, settings: Settings, in_thread: InThread) -> list[Service]:
    """What every worker does besides its tasks: with workers alone nothing stands still."""
    return [
        BringDue(store, in_thread),
        Reaper(store, settings, in_thread),
        CloseFamilies(store, in_thread),
        RepairMutexes(store, in_thread),
    ]


def all_duties(store: Store, settings: Settings, in_thread: InThread) -> list[Service]:
    """The light duties, and those that one process for all is enough for."""
    calls = Calls(store, OutwardClient(settings.callback_allow), in_thread)
    return [
        *light_duties(store, settings, in_thread),
        FireSchedules(store, in_thread, calls.wake),
        calls,
        Callbacks(store, settings, in_thread),
        Compensate(store, settings, in_thread),
        Sampler(store, in_thread),
        Archive(store, settings, in_thread),
    ]
