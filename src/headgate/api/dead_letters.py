"""`/api/dead-letters`: what waits for a person, and what the person does about it."""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType, structs

from headgate.api.actions import MOST_IN_ACTION, Done, Ids, RemarkText, apply_to_each, done_to, refused
from headgate.api.door.principal import Principal, Role
from headgate.api.routing import Routes
from headgate.api.server import Server
from headgate.api.shapes import (
    Cursor,
    Id,
    Integer,
    Limit,
    Name,
    Number,
    Seconds,
    ShortText,
    TaskPage,
    Text,
    copied,
    task_out,
    text_of,
)
from headgate.core.edit import Edit, changes_as_json
from headgate.core.errors import Invalid, Refused
from headgate.core.task import MAX_SECONDS, Task
from headgate.store.store import Store
from headgate.store.tasks.dead_letters import DeadLetterFilter, check_dead

Age = Annotated[float | None, Meta(description="Seconds.", ge=0, le=MAX_SECONDS)]


class LettersIn(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Which dead letters. Ages are seconds; `error` is part of `error_info`, whatever its case."""

    type: Name | None = None
    lane: Name | None = None
    category: ShortText | None = None
    tenant_id: Integer | None = None
    creator: Integer | None = None
    older_than: Seconds | None = None
    younger_than: Seconds | None = None
    error: ShortText | None = None


class Chosen(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Those named, or a page (200 at most) of what a filter finds below `cursor`. A dry run changes nothing."""

    ids: Ids | None = None
    filter: LettersIn | None = None
    cursor: Id | None = None
    dry_run: bool = False


class EditIn(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What is changed before the replay. `ext` takes the place of a task's own and is for one task; `merge` sets some
    of its arguments, and removes those set to null. What is left out stays."""

    ext: Any = UNSET
    merge: dict[Name, Any] | UnsetType = UNSET
    priority: Integer | None = None
    lane: Name | None = None
    timeout_seconds: Annotated[float, Meta(gt=0, le=MAX_SECONDS - 1)] | None = None
    max_error_count: Annotated[int, Meta(ge=0, le=2**31 - 1)] | None = None

    def edit(self) -> Edit:
        fields = {name: value for name, value in structs.asdict(self).items() if value is not UNSET}
        return Edit(**fields | ({} if self.ext is UNSET else {"ext": text_of(self.ext)}))


class Replay(Chosen, forbid_unknown_fields=True, kw_only=True):
    """Which dead letters to run again, and what to change about them before. Of a failed task, named by its id, a
    linked copy runs."""

    edit: EditIn = msgspec.field(default_factory=EditIn)


class Resolve(Chosen, forbid_unknown_fields=True, kw_only=True):
    """Which dead letters a person dealt with, and how."""

    remark: RemarkText


class Discard(Chosen, forbid_unknown_fields=True, kw_only=True):
    """Which dead letters a person gives up, and why."""

    remark: RemarkText | None = None


class Answered(msgspec.Struct):
    """What became of each. With a filter, `next_cursor` leads to those behind them, and is null at the end: with one, a
    page may have few, or none, for it has looked at enough."""

    items: list[Done]
    next_cursor: int | None


class ErrorGroupOut(msgspec.Struct):
    """Dead letters of one type that died of the same. In `error`, what varies is an ellipsis; filter by `contains`."""

    type: str
    error: str
    contains: str
    count: int


class ErrorGroupsOut(msgspec.Struct):
    """How many dead letters there are, and what of, the most frequent first. `exact`: all of them were counted; of more
    than 100,000 it is the newest."""

    total: int
    exact: bool
    items: list[ErrorGroupOut]


routes = Routes("dead letters")


@routes.get("/api/dead-letters", Role.READ, "List dead letters, newest first")
async def list_letters(
    server: Server,
    who: Principal,
    type: Text = None,
    lane: Text = None,
    category: Text = None,
    tenant_id: Number = None,
    creator: Number = None,
    older_than: Age = None,
    younger_than: Age = None,
    error: Text = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> TaskPage:
    wanted = DeadLetterFilter(
        who.tenant_filter(tenant_id), type, lane, category, creator, older_than, younger_than, error
    )
    page = await server.in_thread(server.store.dead_letters.find, wanted, cursor=cursor, limit=limit)
    return TaskPage([task_out(task) for task in page.items], page.next_cursor)


@routes.get("/api/dead-letters/groups", Role.READ, "Count dead letters by error")
async def list_groups(
    server: Server,
    who: Principal,
    type: Text = None,
    lane: Text = None,
    category: Text = None,
    tenant_id: Number = None,
    creator: Number = None,
    older_than: Age = None,
    younger_than: Age = None,
    error: Text = None,
    limit: Limit = 50,
) -> ErrorGroupsOut:
    wanted = DeadLetterFilter(
        who.tenant_filter(tenant_id), type, lane, category, creator, older_than, younger_than, error
    )
    found = await server.in_thread(server.store.dead_letters.groups, wanted)
    return ErrorGroupsOut(found.total, found.exact, [copied(ErrorGroupOut, group) for group in found.items[:limit]])


@routes.post("/api/dead-letters/replay", Role.OPERATOR, "Replay dead letters, with changes or as they are")
async def replay(data: Replay, server: Server, who: Principal) -> Answered:
    if data.edit.ext is not UNSET and len(data.ids or ()) != 1:
        raise Invalid("ext replaces the arguments of one task, named by its id; for several tasks use merge")
    edit = data.edit.edit()
    return await _act(server, who, data, "replay", partial(server.store.dead_letters.replay, edit=edit), edit)


@routes.post("/api/dead-letters/resolve", Role.OPERATOR, "Mark dead letters as resolved")
async def resolve(data: Resolve, server: Server, who: Principal) -> Answered:
    return await _act(server, who, data, "resolve", partial(server.store.dead_letters.resolve, remark=data.remark))


@routes.post("/api/dead-letters/discard", Role.OPERATOR, "Discard dead letters")
async def discard(data: Discard, server: Server, who: Principal) -> Answered:
    return await _act(
        server, who, data, "discard", partial(server.store.dead_letters.discard, remark=data.remark or "")
    )


async def _act(
    server: Server, who: Principal, data: Chosen, action: str, act: Callable[..., Task], edit: Edit | None = None
) -> Answered:
    def act_on_one(task_id: int) -> Done:
        if data.dry_run:
            return _preview(server.store, who, task_id, action, edit)
        return done_to(task_id, act(task_id, actor=who.actor, tenant_id=who.tenant_id))

    return await server.in_thread(_act_on_each, server.store, who, data, act_on_one)


def _preview(store: Store, who: Principal, task_id: int, action: str, edit: Edit | None) -> Done:
    """The task as it is, and why it would be refused; where it would be replayed, what is changed of it."""
    task = store.tasks.get(task_id, who.tenant_id)
    try:
        if edit is not None:
            changes = changes_as_json(store.dead_letters.preview(task_id, edit, who.tenant_id))
            return Done(task_id, task.status.value, changes=changes)
        check_dead(task, action)
    except (Refused, Invalid) as error:
        return refused(task_id, error, task)
    return Done(task_id, task.status.value)


def _act_on_each(store: Store, who: Principal, data: Chosen, act_on_one: Callable[[int], Done]) -> Answered:
    if (data.ids is None) == (data.filter is None):
        raise Invalid("name the dead letters by ids or by a filter")
    if data.ids is not None:
        if data.cursor is not None:
            raise Invalid("a cursor needs a filter")
        return Answered(apply_to_each(data.ids, act_on_one), None)
    letters = data.filter or LettersIn()
    wanted = structs.asdict(letters) | {"tenant_id": who.tenant_filter(letters.tenant_id)}
    page = store.dead_letters.find(DeadLetterFilter(**wanted), cursor=data.cursor, limit=MOST_IN_ACTION)
    return Answered(apply_to_each([task.id for task in page.items], act_on_one), page.next_cursor)
