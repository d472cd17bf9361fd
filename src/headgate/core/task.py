"""The task record, what a caller may ask for, and what a type says about its tasks."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, NoReturn

from headgate.core.errors import Invalid
from headgate.core.family import CONTINUE, check_policy
from headgate.core.retry import RetryPolicy, never
from headgate.core.states import State
from headgate.core.template import check_template, names_in
from headgate.core.unique import BY_ARGUMENTS

MAX_JSON_BYTES = 256 * 1024
MAX_PROGRESS_BYTES = 16 * 1024
MAX_JSON_DEPTH = 64
MAX_ERROR_BYTES = 16 * 1024
MAX_NAME = 255
MAX_SECONDS = 100 * 366 * 24 * 3600.0
MAX_DEFAULTS_BYTES = 16 * 1024
MAX_ERROR_NAMES = 50
MAX_LOST = 3  # lost leases after which a task gives up as poison
DEFAULT_LANE = "default"
EVERYTHING = "*"  # the name of the pause that holds every lane
DEFAULT_PRIORITY = 5
KEYS = ("mutex", "rate_key", "unique_key")  # what a type can make of its tasks' arguments
_INT64 = 1 << 63
_INT32 = 1 << 31


class NewTask(NamedTuple):
    """What a caller asks for; whatever is None comes from the task's type. A tuple: five times as fast to make."""

    type: str
    ext: str = "{}"  # JSON text, as are result and progress
    tenant_id: int = 0
    creator: int = 0
    name: str | None = None
    lane: str | None = None
    category: str | None = None
    priority: int | None = None
    mutex: str | None = None
    rate_key: str | None = None
    agent_id: str | None = None
    unique_key: str | None = None
    start_time: datetime | None = None
    delay_seconds: float | None = None
    max_error_count: int | None = None
    timeout_seconds: float | None = None
    parent_id: int | None = None
    retry_of: int | None = None
    correlation_id: str | None = None
    on_child_failure: str | None = None
    unique_seconds: float | None = None  # unique for this long after it was made, even if it has ended by then
    debounce_seconds: float | None = None  # starts after this long without another submit
    debounce_longest_seconds: float | None = None  # or this long after the first submit, at the latest
    debounce_replace: bool | None = None  # whether another submit replaces ext


_NAME = NewTask._fields.index("name")
_NO_OPTIONS = NewTask("any")[_NAME:]


@dataclass(frozen=True, slots=True)
class TaskType:
    """What holds for every task of one type, now: an edit takes effect at once, for waiting tasks too."""

    code: str
    name: str = ""
    category: str = ""
    lane: str = DEFAULT_LANE
    uses: tuple[str, ...] = ()
    retry: RetryPolicy = never
    timeout_seconds: float = 1800.0
    need_manual: bool = False
    unknown_errors: str = "retry"
    callback: dict[str, Any] = field(default_factory=dict)
    on_child_failure: str = CONTINUE
    priority: int = DEFAULT_PRIORITY
    mutex: str | None = None  # these three are templates: `customer:{customer_id}`
    rate_key: str | None = None
    unique_key: str | None = None
    defaults: dict[str, Any] = field(default_factory=dict)  # of arguments that a template names
    retry_on: tuple[str, ...] = ()  # names of error classes: `retry_on` are retried, `fatal` never are
    fatal: tuple[str, ...] = ()
    unique: str | None = None  # "arguments": the unique key is made of all of them
    unique_seconds: float | None = None  # this and the next three: as in `NewTask`
    debounce_seconds: float | None = None
    debounce_longest_seconds: float | None = None
    debounce_replace: bool = True
    declared_by: str = field(default="", compare=False)  # module:function of the program's that declared it last

    def __post_init__(self) -> None:
        check_name("type", self.code)
        check_name("name", self.name, empty=True)
        check_name("category", self.category, empty=True)
        check_name("lane", self.lane)
        check_lane(self.lane)
        for resource in self.uses:
            check_name("resource", resource)
            if "," in resource:
                raise Invalid("the name of a resource must not contain a comma")
        if len(set(self.uses)) < len(self.uses):
            raise Invalid("a type must not name a resource twice")
        if not self.timeout_seconds > 0:
            raise Invalid("a timeout must be above 0")
        if self.unknown_errors not in ("retry", "fail"):
            raise Invalid("unknown_errors must be 'retry' or 'fail'")
        check_error_names(self.retry_on, self.fatal)
        check_policy(self.on_child_failure)
        _check_int("priority", self.priority, _INT64)
        for label in KEYS:
            if (template := getattr(self, label)) is not None:
                check_name(label, template)
                names_in(template)
        check_json("defaults", json.dumps(self.defaults), MAX_DEFAULTS_BYTES)
        self._check_unique()

    def _check_unique(self) -> None:
        if self.unique not in (None, BY_ARGUMENTS):
            raise Invalid(f"unique must be {BY_ARGUMENTS!r}, not {self.unique!r}")
        if self.unique is not None and self.unique_key is not None:
            raise Invalid("give unique or unique_key, not both")
        if type(self.debounce_replace) is not bool:
            raise Invalid(f"debounce_replace must be true or false, not {self.debounce_replace!r}")
        check_periods(self)
        if has_period(self) and self.unique is None and self.unique_key is None:
            raise Invalid("unique_seconds and debounce_seconds need unique or unique_key")


def check_error_names(retry_on: tuple[str, ...], fatal: tuple[str, ...]) -> None:
    """Raise `Invalid` unless these may be the error classes that a type names."""
    for label, names in (("retry_on", retry_on), ("fatal", fatal)):
        for name in names:
            check_name(label, name)
            if not name.replace(".", "_").isidentifier():
                raise Invalid(f"{label}: {name!r} is not the name of an error class")
        if len(names) > MAX_ERROR_NAMES:
            raise Invalid(f"{label} takes at most {MAX_ERROR_NAMES} error classes")
    if both := sorted(set(retry_on) & set(fatal)):
        raise Invalid(f"{both[0]} is in both retry_on and fatal: remove it from one")


@dataclass(frozen=True, slots=True)
class Task:
    """One row, as it was when read. Times are in UTC."""

    id: int
    tenant_id: int
    type: str
    creator: int
    start_time: datetime
    status: State
    executing_deadline: datetime | None
    exec_id: str | None
    error_count: int
    error_info: str | None
    category: str
    remark: str | None
    ext: str
    result: str | None
    exec_time: float | None
    create_date: datetime
    update_date: datetime
    name: str | None
    lane: str
    priority: int
    mutex: str | None
    rate_key: str | None
    agent_id: str | None
    unique_key: str | None
    parent_id: int | None
    root_id: int | None
    retry_of: int | None
    correlation_id: str | None
    attempt: int
    lost_count: int
    progress: str | None
    worker_id: int | None
    scheduling_time: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    max_error_count: int | None
    timeout_seconds: float | None
    cancel_requested: bool
    pause_requested: bool
    has_children: bool
    skip_callback: bool
    seq: int
    on_child_failure: str | None
    gave_up: bool
    children_since: int  # of its children, those with a higher id belong to its present life


class Execution(NamedTuple):
    """What an executor holds: the task as it was claimed, the exec_id that fences its writes, its deadline.

    `attempt` only ever grows for a task, so it serves outside systems as a fence. A tuple, like `NewTask`. First comes
    what the task's row says, then what its stream says, then what the claim gives it.
    """

    id: int
    priority: int
    mutex: str | None
    ext: str
    error_count: int
    lost_count: int
    max_error_count: int | None
    creator: int
    parent_id: int | None
    root_id: int | None
    correlation_id: str | None
    name: str | None
    tenant_id: int
    type: str

    lane: str
    category: str

    exec_id: str
    attempt: int
    executing_deadline: datetime
    timeout_seconds: float
    status: State = State.RUNNING

    @property
    def cancel_requested(self) -> bool:
        return False  # not known here: the request travels as an answer to a beat or progress

    @property
    def pause_requested(self) -> bool:
        return False

    @property
    def has_children(self) -> bool:
        return False

    @property
    def gave_up(self) -> bool:
        return False

    @property
    def skip_callback(self) -> bool:
        return False


_NAMES = ("name", "lane", "category", "mutex", "rate_key", "agent_id", "unique_key", "correlation_id")


def check_new_task(new: NewTask) -> None:
    """Raise `Invalid`, naming the field, unless `new` may be stored as it is."""
    check_name("type", new.type)
    _check_int("tenant_id", new.tenant_id, _INT64)
    _check_int("creator", new.creator, _INT64)
    if new[_NAME:] != _NO_OPTIONS:  # most tasks leave everything to their type
        _check_options(new)
    check_json("ext", new.ext)


def _check_options(new: NewTask) -> None:
    check_lane(new.lane)
    for label in _NAMES:
        if (value := getattr(new, label)) is not None:
            check_name(label, value, empty=label in ("name", "category"))
    for label in ("parent_id", "retry_of", "priority"):
        if (number := getattr(new, label)) is not None:
            _check_int(label, number, _INT64)
    if new.max_error_count is not None:
        _check_int("max_error_count", new.max_error_count, _INT32, least=0)
    if new.timeout_seconds is not None:
        _check_seconds("timeout_seconds", new.timeout_seconds, above_zero=True)
    if new.delay_seconds is not None:
        _check_seconds("delay_seconds", new.delay_seconds)
    if new.start_time is not None:
        check_start(new.start_time, new.delay_seconds)
    if new.debounce_replace is not None or has_period(new):
        _check_unique(new)
    if new.on_child_failure is not None:
        check_policy(new.on_child_failure)


def check_key_templates(task_type: TaskType) -> None:
    """Raise `Invalid`, naming the key, unless the key templates of a type are allowed."""
    for label in KEYS:
        if (template := getattr(task_type, label)) is not None:
            try:
                check_template(template)
            except Invalid as error:
                raise Invalid(f"{label}: {error}") from None


def check_start(start_time: datetime | None, delay_seconds: float | None) -> None:
    """Raise `Invalid` unless one of them says when something starts."""
    if (start_time is None) == (delay_seconds is None):
        raise Invalid(
            "give start_time or delay_seconds, not both" if start_time else "give start_time or delay_seconds"
        )
    if delay_seconds is not None:
        _check_seconds("delay_seconds", delay_seconds)
    elif not isinstance(start_time, datetime) or start_time.tzinfo is None:
        raise Invalid.of("time-zone-needed", field="start_time")
    elif not 1970 < start_time.year < 9999:
        raise Invalid.of("field-out-of-range", field="start_time")


def _check_unique(new: NewTask) -> None:
    _check_period_ranges(new)
    if new.debounce_replace is not None and type(new.debounce_replace) is not bool:
        raise Invalid(f"debounce_replace must be true or false, not {new.debounce_replace!r}")
    if new.debounce_seconds is None:
        return
    if given := [label for label in ("start_time", "delay_seconds") if getattr(new, label) is not None]:
        raise Invalid(f"debounce_seconds sets the start: leave out {' and '.join(given)}")
    if new.parent_id is not None:
        raise Invalid("a child cannot be debounced: it could belong to another parent")


def has_period(of: NewTask | TaskType) -> bool:
    """Whether it says for how long tasks are unique, or debounced."""
    return of.unique_seconds is not None or of.debounce_seconds is not None or of.debounce_longest_seconds is not None


def check_periods(of: NewTask | TaskType) -> None:
    """Raise `Invalid` unless the periods of a type, or of a task that has those of its type, fit together."""
    _check_period_ranges(of)
    if of.debounce_seconds is None:
        if of.debounce_longest_seconds is not None:
            raise Invalid("debounce_longest_seconds needs debounce_seconds")
    elif longest_debounce_seconds(of) < of.debounce_seconds:
        raise Invalid("debounce_longest_seconds must be at least debounce_seconds")


def _check_period_ranges(of: NewTask | TaskType) -> None:
    for label in ("unique_seconds", "debounce_seconds", "debounce_longest_seconds"):
        if (seconds := getattr(of, label)) is not None:
            _check_seconds(label, seconds, above_zero=True)
    if of.unique_seconds is not None and of.debounce_seconds is not None:
        raise Invalid("give unique_seconds or debounce_seconds, not both")


def longest_debounce_seconds(of: NewTask | TaskType) -> float:
    """How long a debounced task may be pushed out, from when it was first asked for: ten times, unless it says."""
    if of.debounce_longest_seconds is not None:
        return of.debounce_longest_seconds
    return 10 * (of.debounce_seconds or 0.0)


def _check_seconds(label: str, value: float, *, above_zero: bool = False) -> None:
    if type(value) not in (int, float):
        raise Invalid.of("field-not-seconds", field=label)
    if not 0 <= value < MAX_SECONDS or (above_zero and value == 0):
        raise Invalid.of("field-out-of-range", field=label)


def check_tenant(tenant_id: int) -> None:
    """Raise `Invalid` unless this may be the id of a tenant."""
    _check_int("tenant_id", tenant_id, _INT64)


def check_lane(lane: str | None) -> None:
    if lane == EVERYTHING:
        raise Invalid("'*' stands for every lane and cannot name one")


def check_name(label: str, value: str, *, empty: bool = False) -> None:
    if not isinstance(value, str):
        raise Invalid.of("field-not-text", field=label)
    if not value and not empty:
        raise Invalid.of("field-empty", field=label)
    if len(value) > MAX_NAME:
        raise Invalid.of("field-too-long", field=label, most=MAX_NAME)
    if "\0" in value:
        raise Invalid(f"{label} contains a NUL character")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise Invalid(f"{label} contains a lone surrogate") from None


def _check_int(label: str, value: int, limit: int, least: int | None = None) -> None:
    if type(value) is not int:
        raise Invalid.of("field-not-integer", field=label)
    if not (-limit if least is None else least) <= value < limit:
        raise Invalid.of("field-out-of-range", field=label)


def check_json(label: str, text: str, limit: int = MAX_JSON_BYTES) -> None:
    """Raise `Invalid` unless `text` is JSON within the limits of size and depth."""
    if not isinstance(text, str):
        raise Invalid(f"{label} must be JSON text")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise Invalid(f"{label} contains a lone surrogate") from None
    if size > limit:
        raise Invalid.of("field-too-large", field=label, size=size, most=limit)
    try:
        value = _decoded(text)
    except (ValueError, RecursionError) as error:
        raise Invalid.of("field-not-json", field=label, error=str(error)) from None
    if (
        size > MAX_JSON_DEPTH
        and text.count("{") + text.count("[") > MAX_JSON_DEPTH
        and is_deeper(value, MAX_JSON_DEPTH)
    ):
        raise Invalid.of("field-too-deep", field=label, most=MAX_JSON_DEPTH)


def _no_such_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _finite(digits: str) -> float:
    value = float(digits)
    return _no_such_number(digits) if value in (float("inf"), float("-inf")) else value


_DECODER = json.JSONDecoder(parse_constant=_no_such_number, parse_float=_finite)

_scan: Callable[[str, int], tuple[object, int]] = _DECODER.scan_once  # type: ignore[attr-defined]


def _decoded(text: str) -> object:
    """The value; what has nothing around it is read at once, in a third of the time."""
    try:
        value, end = _scan(text, 0)
    except (StopIteration, ValueError):
        return _DECODER.decode(text)
    return value if end == len(text) else _DECODER.decode(text)


def is_deeper(value: object, most: int) -> bool:
    """Whether lists and objects stand in each other more than `most` deep; without recursion."""
    level = [value]
    for _ in range(most + 1):
        below: list[object] = []
        nested = False
        for item in level:
            if isinstance(item, dict):
                below.extend(item.values())
                nested = True
            elif isinstance(item, list):
                below.extend(item)
                nested = True
        if not nested:
            return False
        level = below
    return True


def clip(text: str, limit: int = MAX_ERROR_BYTES) -> str:
    """`text` as it can be stored: no NUL, no lone surrogate, cut at a character within `limit` bytes."""
    raw = text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace")
    return raw.decode() if len(raw) <= limit else raw[:limit].decode("utf-8", "ignore")


def clip_error(text: str, limit: int = MAX_ERROR_BYTES) -> str:
    """An error as it can be stored; one that is too long loses its middle, for its end says where it was raised."""
    whole = clip(text, max(limit, 4 * len(text)))
    raw = whole.encode()
    if len(raw) <= limit:
        return whole
    room = limit - len(_LEFT_OUT.format(len(raw)).encode())
    head, tail = raw[: room // 4], raw[-(room - room // 4) :]
    left_out = _LEFT_OUT.format(len(raw) - len(head) - len(tail))
    return head.decode("utf-8", "ignore") + left_out + tail.decode("utf-8", "ignore")


_LEFT_OUT = "\n… {} bytes left out …\n"
