"""`/api/task-types`: types as data."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import UNSET, Meta, UnsetType, structs

from headgate.api.door.principal import Principal, Role
from headgate.api.routing import Routes
from headgate.api.server import Server
from headgate.api.shapes import Integer, Name, OnChildFailure, PauseOut, PositiveSeconds, ShortText, pause_out
from headgate.core.errors import Invalid
from headgate.core.pause import Pause, PauseKey, PauseScope
from headgate.core.retry import MAX_DELAY_SECONDS, Strategy
from headgate.core.task import DEFAULT_LANE, DEFAULT_PRIORITY, MAX_ERROR_NAMES, MAX_SECONDS, TaskType
from headgate.core.task_types import TYPE_FIELDS, changes_of, edited, fields_of
from headgate.outward.address import MAX_URL
from headgate.outward.callback import LONGEST_SK, SHORTEST_SK, sealed_callback
from headgate.store.catalog.type_rows import StoredType
from headgate.store.catalog.types import check_type_id
from headgate.store.store import Store

Code = Annotated[str, Meta(description="Code of the type.", min_length=1, max_length=255)]
MOST_IDS = 20  # of the ids that a dry run tells of
Delay = Annotated[float, Meta(ge=0, le=MAX_DELAY_SECONDS)]
Template = Annotated[str, Meta(min_length=1, max_length=255, description="`customer:{customer_id}`")]
ErrorClasses = Annotated[
    list[Name], Meta(max_length=MAX_ERROR_NAMES, description="Names of error classes: `ApiError`, `shop.api.ApiError`.")
]
Url = Annotated[str, Meta(min_length=1, max_length=MAX_URL, pattern="^https?://[^/]")]
AccessKey = Annotated[str, Meta(min_length=1, max_length=128, pattern="^[A-Za-z0-9._~-]+$")]
SecretKey = Annotated[str, Meta(min_length=SHORTEST_SK, max_length=LONGEST_SK, pattern="^[!-~]+$")]


class Target(msgspec.Struct, forbid_unknown_fields=True):
    """Where a callback goes."""

    url: Url
    method: Literal["POST", "PUT"] = "POST"


class SecurityOut(msgspec.Struct, omit_defaults=True):
    """How callbacks are signed. The secret is never shown."""

    type: Literal["none", "aksk"]
    ak: str | UnsetType = UNSET


class SecurityIn(msgspec.Struct, forbid_unknown_fields=True):
    """How callbacks are signed: not at all, or by a key (`ak`) and its secret. A secret left out is kept."""

    type: Literal["none", "aksk"] = "none"
    ak: AccessKey | UnsetType = UNSET
    sk: SecretKey | UnsetType = UNSET


class CallbackIn(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Who is told how a task ended."""

    success: Target | UnsetType = UNSET
    error: Target | UnsetType = UNSET
    security: SecurityIn | UnsetType = UNSET


class CallbackOut(msgspec.Struct, omit_defaults=True):
    """Who is told how a task ended."""

    success: Target | UnsetType = UNSET
    error: Target | UnsetType = UNSET
    security: SecurityOut | UnsetType = UNSET


class ConfigIn(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """How tasks of this type are tried, and for how long. Times are seconds, `timeout` minutes.

    `retry_on` and `fatal` name error classes that are retried, or never; of several, the nearest to the error decides.
    """

    retry_strategy: Strategy = Strategy.NONE
    retry_interval: Delay = 0.0
    retry_sequence: Annotated[list[Delay], Meta(max_length=1000)] = []
    initial_delay: Delay = 5.0
    factor: Annotated[float, Meta(ge=1, le=1e6)] = 2.0
    cap: Delay = 3600.0
    jitter: Annotated[float, Meta(ge=0, le=1)] = 0.1
    max_error_count: Annotated[int, Meta(ge=0, le=2**31 - 1)] = 0
    timeout: Annotated[float, Meta(ge=0.001, le=MAX_SECONDS / 61)] = 30.0
    need_manual: bool = False
    unknown_errors: Literal["retry", "fail"] = "retry"
    retry_on: ErrorClasses = []
    fatal: ErrorClasses = []
    on_child_failure: OnChildFailure = "continue"
    callback: CallbackIn = msgspec.field(default_factory=CallbackIn)


class ConfigOut(msgspec.Struct, kw_only=True):
    """How tasks of this type are tried, and for how long. Times are seconds, `timeout` minutes."""

    retry_strategy: Strategy
    retry_interval: float
    retry_sequence: list[float]
    initial_delay: float
    factor: float
    cap: float
    jitter: float
    max_error_count: int
    timeout: float
    need_manual: bool
    unknown_errors: str
    retry_on: list[str]
    fatal: list[str]
    on_child_failure: str
    callback: CallbackOut


class TypeIn(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A task type; what is left out has its default.

    `mutex`, `rate_key` and `unique_key` are made of a task's `ext`, or of `defaults` for what it leaves out; `unique`
    makes the unique key of all of it. A type may be sent back as it was read: `id` and `code` are those of the type in
    the address, and `edited`, `declared_by` and `pause` change nothing.
    """

    id: Integer | UnsetType | None = UNSET
    code: Name | UnsetType = UNSET
    edited: bool | UnsetType = UNSET
    declared_by: ShortText | UnsetType = UNSET
    pause: PauseOut | UnsetType | None = UNSET
    name: ShortText = ""
    category: ShortText = ""
    lane: Name = DEFAULT_LANE
    uses: Annotated[list[Name], Meta(max_length=50)] = []
    priority: Integer = DEFAULT_PRIORITY
    mutex: Template | None = None
    rate_key: Template | None = None
    unique_key: Template | None = None
    unique: Literal["arguments"] | None = None
    unique_seconds: PositiveSeconds | None = None
    debounce_seconds: PositiveSeconds | None = None
    debounce_longest_seconds: PositiveSeconds | None = None
    debounce_replace: bool = True
    defaults: dict[Name, Any] = {}
    config: ConfigIn = msgspec.field(default_factory=ConfigIn)


class ForeseenOut(msgspec.Struct):
    """What an edit would change, and what it would mean for the tasks of the type that have not ended.

    `given_up`: how many would end with their next failure that would not now; `spared`: the other way round; the first
    20 of each. `retimed`: how many get the new timeout with their next execution. `stay`: how many wait in another lane
    or category than new tasks will, and stay there. `exact` is false where there were too many tasks to look at.
    """

    changes: dict[str, dict[str, Any]]
    states: dict[str, int]
    given_up: int
    given_up_ids: list[int]
    spared: int
    spared_ids: list[int]
    retimed: int
    stay: int
    as_of: datetime
    exact: bool


class TypeOut(msgspec.Struct):
    """What holds for every task of a type, now."""

    id: int | None  # the type's own while it exists; null only in the dry run of a new type
    code: str
    name: str
    category: str
    lane: str
    uses: list[str]
    priority: int
    mutex: str | None
    rate_key: str | None
    unique_key: str | None
    unique: str | None
    unique_seconds: float | None
    debounce_seconds: float | None
    debounce_longest_seconds: float | None
    debounce_replace: bool
    defaults: dict[str, Any]
    config: ConfigOut
    edited: bool  # by a person: no program's registration overwrites it
    declared_by: str  # module:function of the program that declared it last
    pause: PauseOut | None = None  # that holds its tasks
    foreseen: ForeseenOut | UnsetType = UNSET  # in the answer to a dry run


class Types(msgspec.Struct):
    items: list[TypeOut]


routes = Routes("task types", shared=True)


@routes.get("/api/task-types", Role.READ, "List task types")
async def list_types(server: Server, who: Principal) -> Types:
    def work() -> Types:
        pauses = server.store.pauses.by_key()
        return Types([_with_pause(type_out(record, who), pauses) for record in server.store.types.all()])

    return await server.in_thread(work)


@routes.get("/api/task-types/{code}", Role.READ, "Get a task type", errors=(404,))
async def get_type(code: Code, server: Server, who: Principal) -> TypeOut:
    def work() -> TypeOut:
        return _with_pause(type_out(server.store.types.get(code), who), server.store.pauses.by_key())

    return await server.in_thread(work)


def _with_pause(out: TypeOut, pauses: Mapping[PauseKey, Pause]) -> TypeOut:
    out.pause = pause_out(pauses.get((PauseScope.TYPE, out.code)))
    return out


@routes.put("/api/task-types/{code}", Role.ADMIN, "Add or replace a task type", errors=(507,))
async def put_type(
    code: Code,
    data: TypeIn,
    server: Server,
    who: Principal,
    dry_run: Annotated[bool, Meta(description="Return what would change, and change nothing.")] = False,
) -> TypeOut:
    """Takes effect at once, for waiting tasks too, which keep their lane, category, priority and keys. No program's
    registration overwrites it afterwards. A callback's `sk` is stored sealed under HEADGATE_SECRET, and needs one. A
    dry run changes nothing and says, under `foreseen`, what would change for the tasks there are.
    """

    if data.code not in (UNSET, code):
        raise Invalid(f"the code in the body ({data.code}) must match the path ({code}): a code cannot change")
    expected_id = None if data.id is UNSET else data.id

    def change(before: TaskType | None) -> TaskType:
        return _task_type(code, data, before, server)

    def work() -> TypeOut:
        if dry_run:
            before = server.store.types.find(code)
            check_type_id(code, before, expected_id)
            return _preview(server.store, code, before, change, who)
        stored = server.store.types.edit(code, change, actor=who.actor, expected_id=expected_id)
        return _with_pause(type_out(stored, who), server.store.pauses.by_key())

    return await server.in_thread(work)


def _preview(
    store: Store, code: str, stored: StoredType | None, change: Callable[[TaskType | None], TaskType], who: Principal
) -> TypeOut:
    """The type as it would be, and what that would mean."""
    before = None if stored is None else stored.kind
    after = change(before)
    preview = store.types.preview(before, after)
    foreseen = preview.foreseen
    if before is not None:
        after = replace(after, declared_by=before.declared_by)
    out = _out(after, None if stored is None else stored.id, edited=True, who=who)
    out.foreseen = ForeseenOut(
        changes_of(before, after), {state.value: count for state, count in sorted(foreseen.states.items())},
        len(foreseen.given_up), list(foreseen.given_up[:MOST_IDS]),
        len(foreseen.spared), list(foreseen.spared[:MOST_IDS]),
        foreseen.retimed, foreseen.stay, preview.as_of, preview.exact,
    )  # fmt: skip
    return out


@routes.delete("/api/task-types/{code}", Role.ADMIN, "Remove a task type", errors=(404, 507))
async def remove_type(code: Code, server: Server, who: Principal) -> None:
    """New tasks of the type are refused; existing ones use the default settings."""
    await server.in_thread(server.store.types.remove, code, actor=who.actor)


def _task_type(code: str, data: TypeIn, before: TaskType | None, server: Server) -> TaskType:
    config = data.config
    fields = structs.asdict(data) | structs.asdict(config)
    task_type = edited(TaskType(code), {name: fields[name] for name in TYPE_FIELDS})
    known = before.callback if before else {}
    callback = sealed_callback(msgspec.to_builtins(config.callback), code, server.seals, known, server.allowed)
    return replace(task_type, callback=callback)


def type_out(stored: StoredType, who: Principal) -> TypeOut:
    """A type for the outside, without its secrets. All tenants share it: a tenant sees the hosts of callbacks only."""
    return _out(stored.kind, stored.id, edited=stored.edited, who=who)


def _out(kind: TaskType, type_id: int | None, *, edited: bool, who: Principal) -> TypeOut:
    fields = fields_of(kind)
    config = msgspec.convert(fields | {"callback": kind.callback}, ConfigOut)
    if who.tenant_id is not None:
        for target in (config.callback.success, config.callback.error):
            if isinstance(target, Target):
                scheme, host, *_ = urlsplit(target.url)
                target.url = f"{scheme}://{host}/…"
    origin = {"id": type_id, "code": kind.code, "edited": edited, "declared_by": kind.declared_by}
    return msgspec.convert(fields | origin | {"config": config}, TypeOut)
