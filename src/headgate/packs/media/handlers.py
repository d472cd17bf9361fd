"""Every handler of the pack, for the worker that loads them."""

from headgate.packs.media import fetching, upkeep
from headgate.packs.media.tasks import tasks

__all__ = ["fetching", "tasks", "upkeep"]
