"""What the store must know before the first request comes."""

import logging
from collections.abc import Mapping
from datetime import timedelta

from headgate.environment import utc_now
from headgate.packs.media.lanes import LANES
from headgate.packs.media.types import TYPES
from headgate.store.events.audit import SYSTEM
from headgate.store.store import Store

log = logging.getLogger("headgate")
MADE = "request_lanes_made"
RECORD_AGAIN_AFTER = timedelta(days=1)  # what is in the audit is forgotten one day


def set_up(store: Store, environment: Mapping[str, str]) -> None:
    """Make the pack's types and lanes, at every start.

    A type that is there stays as it is: a program of the same name brings its own rules. The environment says what
    room a lane begins with: once it has a capacity, or had one from here, it is people's to change.
    """
    wanted = {lane.name: lane.capacity(environment) for lane in LANES}
    known = store.types.by_code()
    for task_type in TYPES:
        if task_type.code not in known:
            store.types.put(task_type)
    capacities = {lane.name: lane.capacity for lane in store.lanes.all()}
    last = store.events.last_act(MADE)
    made_before = last is not None
    for lane in LANES:
        capacity = capacities.get(lane.name)
        if capacity is None and not made_before:
            store.lanes.set_capacity(lane.name, wanted[lane.name], actor=SYSTEM)
        elif lane.variable in environment and capacity != wanted[lane.name]:
            now = "no limit" if capacity is None else capacity
            log.info("lane %s: %s, as it was set; %s is for a new store", lane.name, now, lane.variable)
    if last is None or utc_now() - last > RECORD_AGAIN_AFTER:
        store.events.record(MADE, ", ".join(lane.name for lane in LANES))
