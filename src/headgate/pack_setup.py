"""What packs and the program need in a store before the first task: set up at every start, whatever is already
there."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from headgate.core.errors import Invalid, Unavailable
from headgate.core.limits import DeclaredLimits, LimitSource
from headgate.core.task import TaskType
from headgate.core.task_types import inherited
from headgate.pack import Lane, Pack, Resource, first_capacity, read_settings
from headgate.registry import Handler, Registry, same_function
from headgate.settings import Settings, variables
from headgate.store.catalog.type_rows import StoredType
from headgate.store.db.migrate import Migration
from headgate.store.db.packs import made_by, migrate_pack, note_made, plan_pack
from headgate.store.db.statement import Db
from headgate.store.store import MIGRATE_SECONDS, Store

log = logging.getLogger("headgate")


def pack_plan(store: Store, packs: Sequence[Pack]) -> list[Migration]:
    """The steps that `migrate_packs` would take."""
    steps = [step for pack in packs for step in store.database.snapshot(partial(_plan, pack))]
    return list(dict.fromkeys(steps))  # each of them would make the ledger


def migrate_packs(store: Store, packs: Sequence[Pack]) -> list[Migration]:
    """Bring the tables of packs up to date, after the store's own; the steps taken."""
    taken: list[Migration] = []
    for pack in packs:
        taken += store.database.write(partial(_migrate, pack), MIGRATE_SECONDS)
    return taken


def _plan(pack: Pack, db: Db) -> list[Migration]:
    return plan_pack(db, pack.name, pack.migrations)


def _migrate(pack: Pack, db: Db) -> list[Migration]:
    return migrate_pack(db, pack.name, pack.migrations)


def set_up(
    store: Store, packs: Sequence[Pack], environment: Mapping[str, str] | None = None, *, migrate: bool = False
) -> None:
    """Make the tables, limits and types of packs, at every start.

    Tables are made in our own SQLite file, or with `migrate`; on a server its owner is asked to make them. A type that
    a person edited stays as it is; else it follows the pack, except where a program overrides it. The environment sets
    the first capacity of a lane or a resource; once it has one, or had one from here, people decide.
    """
    if not packs:
        return
    environment = variables() if environment is None else environment
    for pack in packs:  # raise errors before anything is created
        _first_capacities(pack, environment)
        if pack.settings is not None:
            read_settings(pack.settings, environment)
    if pack_plan(store, packs):
        if not migrate and store.database.dialect != "sqlite":
            names = " ".join(f"--pack {pack.name}" for pack in packs)
            raise Unavailable(f"the tables of a pack are not up to date: run `headgate migrate {names}` first")
        migrate_packs(store, packs)
    for pack in packs:
        if pack.at_start is not None:
            pack.at_start()
        _set_limits(store, pack, environment)
        _put_types(store, pack, environment)


def declare_limits(store: Store, settings: Settings, program: DeclaredLimits | None = None) -> None:
    """Set the limits of settings and of a program; log those that a stronger source set otherwise."""
    declared = {LimitSource.SETTINGS: settings.limits}
    if program is not None:
        declared[LimitSource.PROGRAM] = program
    for source, limits in declared.items():
        for what, held_by in store.limits.declare(limits, source).items():
            log.info("limit not applied: limit=%r declared_by=%s set_by=%s", what, source, held_by)


def declare_types(store: Store, registry: Registry) -> None:
    """Store the types that a program declares."""
    known = {stored.kind.code: stored for stored in store.types.all()} if len(registry) else {}
    for handler in registry:
        if handler.type.declared_by:  # else it is a pack's, and set up
            _declare_type(store, handler, known.get(handler.code))


def _declare_type(store: Store, handler: Handler, before: StoredType | None) -> None:
    """Store the type as declared here, unless a person edited it; log whose declaration does not hold."""
    if before is not None and not before.edited and _says_the_same(handler, before):
        return
    now = store.types.declare(handler.code, handler.over, handler.set_fields)
    if now.edited:
        _log_edited(handler, now.kind)
    elif before is None or before.kind == now.kind or before.is_packs_own:
        return
    elif not same_function(before.kind.declared_by, handler.place):
        log.warning(
            "type %s was declared by %s with other rules; those of %s apply now. If both are in use, they run "
            "each other's tasks: give one another code", handler.code, before.kind.declared_by, handler.place,
        )  # fmt: skip


def _log_edited(handler: Handler, edited: TaskType) -> None:
    if inherited(edited, handler.type, handler.set_fields) != edited:
        log.info("type %s was edited by a person: the declaration of %s does not apply", handler.code, handler.place)
    try:
        handler.check_keys(edited)
    except Invalid as error:  # the program starts all the same: the edit can be corrected while it runs
        log.warning("type %s was edited by a person and does not match %s: %s", handler.code, handler.place, error)


def _says_the_same(handler: Handler, stored: StoredType) -> bool:
    return (stored.set_fields, stored.kind) == (handler.set_fields, handler.over(stored.base))


def _put_types(store: Store, pack: Pack, environment: Mapping[str, str]) -> None:
    known = {stored.kind.code: stored for stored in store.types.all()} if pack.types else {}
    own = f"pack {pack.name}"
    for task_type in pack.tuned_types(environment):
        before = known.get(task_type.code)
        base = None if before is None else before.base
        if before is not None and before.edited:
            continue
        if base is None or (base.declared_by == own and base != task_type):
            store.types.declare_base(replace(task_type, declared_by=own))


def _first_capacities(pack: Pack, environment: Mapping[str, str]) -> dict[Lane | Resource, int | None]:
    limits: list[Lane | Resource] = [*pack.lanes, *pack.resources]
    return {limit: first_capacity(limit, environment) for limit in limits}


def _set_limits(store: Store, pack: Pack, environment: Mapping[str, str]) -> None:
    wanted = _first_capacities(pack, environment)
    if not wanted:
        return
    made = store.database.read(lambda db: made_by(db, pack.name))
    lanes = {lane.name: lane.capacity for lane in store.lanes.all()}
    resources = {resource.name: resource.capacity for resource in store.resources.all()}
    for limit, capacity in wanted.items():
        noun, there = ("lane", lanes) if isinstance(limit, Lane) else ("resource", resources)
        item, now = f"{noun} {limit.name}", there.get(limit.name)
        if limit.name not in there or (now is None and item not in made):
            _set_capacity(store, limit, capacity)
        elif limit.variable in environment and now != capacity:
            text = "no limit" if now is None else now
            log.info("%s: %s, as set before; %s applies to a new store only", item, text, limit.variable)
        if item not in made:
            store.database.write(partial(note_made, pack=pack.name, item=item))


def _set_capacity(store: Store, limit: Lane | Resource, capacity: int | None) -> None:
    declared = DeclaredLimits()
    if isinstance(limit, Lane):
        declared.lane(limit.name, capacity)
    elif capacity is not None:
        declared.resource(limit.name, capacity)
    store.limits.declare(declared, LimitSource.PACK)
