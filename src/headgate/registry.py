"""Handlers by type: the function, what its arguments must be, and what its type says."""

import difflib
import importlib
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import StrEnum
from functools import reduce
from json import JSONEncoder
from operator import or_
from types import UnionType
from typing import Any, Union, get_args, get_origin

import msgspec
from msgspec.inspect import CustomType, type_info

from headgate.core.errors import BadArguments, Invalid
from headgate.core.retry import RetryPolicy, class_name, never
from headgate.core.task import KEYS, Task, TaskType, check_key_templates
from headgate.core.task_types import inherited
from headgate.core.template import names_in, required_names_in

MEMORY_MEGABYTES = 500
_NOT_JSON = (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError)
_SCALARS = frozenset({str, int, float, bool, type(None)})
_FIELD = re.compile(r"Object (missing required|contains unknown) field `(.+)`")  # as msgspec says it
_strict_encode = JSONEncoder(allow_nan=False).encode


def json_of(value: Any) -> str:
    """A value as JSON; `ValueError` or similar if it has no JSON form, as a NaN, which would silently become null."""
    text = msgspec.json.encode(value)
    if b"null" in text:
        _strict_encode(msgspec.to_builtins(value, str_keys=True))
    return text.decode()


class Isolation(StrEnum):
    """Where a handler runs."""

    LOOP = "loop"  # `async def`, on the worker's event loop
    THREAD = "thread"  # `def`, in a thread
    PROCESS = "process"  # either, in a process of its own: it can be killed, and its memory is limited


def place_of(function: Callable[..., Any]) -> str:
    """`module:name` of a function."""
    return f"{function.__module__}:{function.__qualname__}"


def same_function(before: str, now: str) -> bool:
    """Whether two places may be the same: old types have no place stored, and a script's module has two names."""
    (module, _, name), (new_module, _, new_name) = before.partition(":"), now.partition(":")
    return not before or (name == new_name and (module == new_module or "__main__" in (module, new_module)))


def name_of(function: Callable[..., Any]) -> str:
    """What a function is called; `Invalid` unless it is one that can be a task."""
    if not inspect.isfunction(function) and not inspect.ismethod(function):
        raise Invalid(f"{function!r} is not a function: a task is a `def` or an `async def`")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise Invalid(f"{function.__qualname__} is a generator: a task returns one result")
    return function.__name__


def listed_errors(function: str, label: str, errors: Sequence[type[BaseException] | str]) -> tuple[str, ...]:
    """The names of error classes that a decorator lists, as classes or by name."""
    if isinstance(errors, str | type):
        raise Invalid(f"{function}: {label} must be a list of error classes: {label}=[…]")
    if wrong := [each for each in errors if not isinstance(each, str) and not _is_error(each)]:
        raise Invalid(f"{function}: {label}: {wrong[0]!r} is not an error class")
    return tuple(each if isinstance(each, str) else class_name(each) for each in errors)


HANDLER_OPTIONS = ("code", "isolation", "memory_megabytes")
TYPE_OPTIONS = tuple(field.name for field in fields(TaskType) if field.name not in ("code", "defaults", "declared_by"))


def type_options(function: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of the type that a decorator sets; `Invalid` if there is no such option."""
    for name in options:
        if name not in TYPE_OPTIONS:
            near = difflib.get_close_matches(name, [*TYPE_OPTIONS, *HANDLER_OPTIONS], 1)
            raise Invalid(f"@app.task has no option {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
    if not isinstance(options.get("retry", never), RetryPolicy):
        raise Invalid(
            "retry must be a policy: headgate.exponential(60, retries=3), headgate.fixed(…), headgate.sequence(…)"
        )
    values = dict(options)
    if "uses" in options:
        if isinstance(options["uses"], str):
            raise Invalid(f"{function}: uses must be a list of resources: uses=[{options['uses']!r}]")
        values["uses"] = tuple(options["uses"])
    for label in ("retry_on", "fatal"):
        if label in options:
            values[label] = listed_errors(function, label, options[label])
    return values


def _is_error(found: object) -> bool:
    return isinstance(found, type) and issubclass(found, BaseException)


def isolation_of(function: Callable[..., Any], wanted: str | None) -> Isolation:
    """Where a function is to run: as wanted, else a coroutine on the loop and the rest in a thread."""
    own = Isolation.LOOP if inspect.iscoroutinefunction(function) else Isolation.THREAD
    if wanted is not None and wanted not in list(Isolation):
        raise Invalid(f"{function.__qualname__}: isolation must be one of {', '.join(Isolation)}, not {wanted!r}")
    if wanted is None or wanted == own:
        return own
    if wanted != Isolation.PROCESS:
        refused = "an async function" if own is Isolation.LOOP else "a function that is not async"
        raise Invalid(f"{function.__qualname__}: isolation {wanted!r} is not for {refused}; 'process' and '{own}' are")
    if "<" in function.__qualname__ or inspect.ismethod(function):
        raise Invalid(
            f"{function.__qualname__}: another process cannot import it: move it to the top level of a module"
        )
    return Isolation.PROCESS


class Arguments:
    """A handler's parameters as JSON, checked against its annotations on the way in and on the way out."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._qualname = function.__qualname__
        try:
            self._signature = inspect.signature(function, eval_str=True)
        except (NameError, AttributeError, TypeError, ValueError, SyntaxError) as error:
            raise Invalid(f"{self._qualname}: its annotations cannot be read: {error}") from None
        self.names = tuple(self._signature.parameters)
        self._names = frozenset(self.names)
        parameters = self._signature.parameters.values()
        self._positional = tuple(each.name for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD)
        self._required = frozenset(each.name for each in parameters if each.default is each.empty)
        members = [self._member(parameter) for parameter in self._signature.parameters.values()]
        answer = self._signature.return_annotation
        self.result: Any = Any if answer is self._signature.empty else _without_requests(answer)
        try:
            shape = msgspec.defstruct("Arguments", members, kw_only=True, forbid_unknown_fields=True)
            self._decoder = msgspec.json.Decoder(shape)
            msgspec.json.Decoder(self.result)
            self._refuse_custom(shape, self.result)
        except TypeError as error:
            raise Invalid(f"{self._qualname}: {error}") from None

    def _member(self, parameter: inspect.Parameter) -> tuple[str, Any] | tuple[str, Any, Any]:
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise Invalid(f"{self._qualname}: {parameter} is not allowed: a task takes named parameters only")
        if parameter.annotation is parameter.empty and parameter.name == self.names[0] in ("self", "cls"):
            raise Invalid(
                f"{self._qualname}: a task is a function, not a method: nothing could pass its {parameter.name}"
            )
        annotation = Any if parameter.annotation is parameter.empty else parameter.annotation
        if parameter.default is parameter.empty:
            return (parameter.name, annotation)
        # An argument left out stays out: the handler's default applies when it runs.
        return (parameter.name, Union[annotation, msgspec.UnsetType], msgspec.UNSET)  # noqa: UP007

    def _refuse_custom(self, *annotations: Any) -> None:
        for found in _parts(type_info(annotation) for annotation in annotations):
            if isinstance(found, CustomType) and found.cls is not object:
                raise Invalid(f"{self._qualname}: a {found.cls.__qualname__} cannot be created from JSON")

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of a call, by name, in the order of the parameters."""
        arguments = dict(zip(self._positional, args)) | dict(kwargs)  # noqa: B905 too many are counted below
        if len(arguments) == len(args) + len(kwargs) and self._required <= arguments.keys() <= self._names:
            return {name: arguments[name] for name in self.names if name in arguments}
        try:
            return self._signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise Invalid(f"{self._qualname}: {error}") from None

    def defaults(self, names: Iterable[str]) -> dict[str, Any]:
        """The defaults of these parameters as JSON; without those that have none, or none with a JSON form."""
        found = {}
        for name in names:
            parameter = self._signature.parameters.get(name)
            if parameter is not None and parameter.default is not parameter.empty:
                with suppress(TypeError, ValueError):
                    found[name] = msgspec.to_builtins(parameter.default, str_keys=True)
        return found

    def encode(self, arguments: Mapping[str, Any]) -> str:
        """Arguments as JSON text; `Invalid` if they have no JSON form or do not fit the annotations."""
        try:
            text = json_of(arguments)
            shape = self._decoder.decode(text)
        except _NOT_JSON as error:
            raise Invalid(self._explained(_first_bad(arguments), error)) from None
        for name, value in arguments.items():
            if type(value) not in _SCALARS and (lost := _lost_in_json(value, getattr(shape, name))):
                raise Invalid(
                    f"{self._qualname}: argument {name}: {lost}; annotate it with that type, or use a JSON value"
                )
        return text

    def decode(self, ext: str) -> dict[str, Any]:
        """The arguments to call the handler with; `BadArguments` if they do not fit it."""
        try:
            shape = self._decoder.decode(ext)
        except (ValueError, RecursionError, msgspec.MsgspecError) as error:
            raise BadArguments(self._explained(None, error)) from None
        return {name: value for name in self.names if (value := getattr(shape, name)) is not msgspec.UNSET}

    def _explained(self, name: str | None, error: Exception) -> str:
        """The error with the argument it is about; a path of msgspec's, as `$.order.pages[0]`, names it too."""
        what, _, path = str(error).partition(" - at `$.")
        name = path.removesuffix("`") or name
        if found := _FIELD.fullmatch(what):
            problem, field = "is missing" if found[1] == "missing required" else "is unknown", found[2]
            inside = f"argument {field}" if name is None else f"argument {name}: field {field}"
            return f"{self._qualname}: {inside} {problem}"
        which = "arguments" if name is None else f"argument {name}"
        return f"{self._qualname}: {which}: {what}"


def _first_bad(arguments: Mapping[str, Any]) -> str | None:
    """The name of the first argument that is no JSON by itself."""
    for name, value in arguments.items():
        try:
            json_of(value)
        except _NOT_JSON:
            return name
    return None


def _lost_in_json(value: Any, arrived: Any) -> str | None:
    """What in `value` the handler would get as something else: bytes as text, a set as a list."""
    if isinstance(value, bytes | bytearray | memoryview):
        return f"{type(value).__name__} would arrive as text" if isinstance(arrived, str) else None
    if isinstance(value, set | frozenset):
        return f"a {type(value).__name__} would arrive as a list" if isinstance(arrived, list) else None
    pairs: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, dict) and isinstance(arrived, dict):
        pairs = zip(value.values(), arrived.values(), strict=False)  # 1 and "1" are one key of JSON
    elif isinstance(value, list | tuple) and isinstance(arrived, list | tuple):
        pairs = zip(value, arrived, strict=False)
    elif names := _fields_of(value):
        pairs = [(getattr(value, name, None), _field(arrived, name, key)) for name, key in names.items()]
    return next((lost for pair in pairs if type(pair[0]) not in _SCALARS and (lost := _lost_in_json(*pair))), None)


def _fields_of(value: Any) -> dict[str, str]:
    """The fields of a dataclass or a Struct, and what they are called in JSON."""
    if isinstance(value, msgspec.Struct):
        return dict(zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True))
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: field.name for field in fields(value)}
    return {}


def _field(arrived: Any, name: str, key: str) -> Any:
    """A field of what arrived: of the same class, or, where nothing is annotated, of a dict."""
    return arrived.get(key) if isinstance(arrived, dict) else getattr(arrived, name, None)


def _without_requests(answer: Any) -> Any:
    """A handler's result, without what it may say to Headgate in its place: `dict | Snooze` gives a dict."""
    if get_origin(answer) not in (Union, UnionType):
        return answer
    results = [member for member in get_args(answer) if not getattr(member, "__module__", "").startswith("headgate.")]
    return reduce(or_, results) if results else None


def _parts(found: Iterable[Any]) -> Iterator[Any]:
    """A description of types, and those it is made of, each once."""
    seen: set[int] = set()
    waiting = list(found)
    while waiting:
        part = waiting.pop()
        if isinstance(part, tuple):
            waiting.extend(part)
        elif isinstance(part, msgspec.Struct) and id(part) not in seen:
            seen.add(id(part))
            waiting.extend(getattr(part, name) for name in part.__struct_fields__)
            yield part


@dataclass(frozen=True, slots=True)
class Handler:
    """A function that does tasks of one type, and the defaults of its tasks."""

    function: Callable[..., Any]
    type: TaskType
    arguments: Arguments
    isolation: Isolation
    memory_megabytes: float = MEMORY_MEGABYTES
    set_fields: frozenset[str] = frozenset()  # the fields of the type that its decorator sets

    @property
    def code(self) -> str:
        return self.type.code

    def over(self, base: TaskType | None) -> TaskType:
        """The type where a pack has it too: options that the decorator does not give are the pack's.

        `Invalid` if a key that it inherits takes an argument that the function does not have.
        """
        if base is None:
            return self.type
        try:
            kind = inherited(base, self.type, self.set_fields)
            self.check_keys(kind)
        except Invalid as error:
            raise Invalid(
                f"{self.place} inherits type {self.code} of {base.declared_by}, but does not match it: {error}; "
                "set the option in @app.task, or give the function another code"
            ) from None
        return replace(kind, defaults=kind.defaults | self.arguments.defaults(names_in_keys(kind)))

    def check_keys(self, kind: TaskType) -> None:
        """Raise `Invalid` if a key of this type takes an argument that the function does not have."""
        for label in KEYS:
            template = getattr(kind, label)
            for name in required_names_in(template or ""):
                if name not in self.arguments.names and name not in kind.defaults:
                    raise Invalid(f"{label} {template!r} names {name!r}, which is not one of its parameters")

    def result_type(self, task: Task) -> Any:
        """What the result of a task is, as annotated; `Invalid` if the task is of another type."""
        if task.type != self.code:
            raise Invalid(f"task {task.id} is of type {task.type}, not {self.code}")
        return self.arguments.result

    @property
    def place(self) -> str:
        """`module:name`, from where another process can import the function."""
        return place_of(self.function)

    def __post_init__(self) -> None:
        if not self.memory_megabytes > 0:
            raise Invalid(f"{self.code}: memory_megabytes must be above 0")
        check_key_templates(self.type)
        try:
            self.check_keys(self.type)
        except Invalid as error:
            raise Invalid(f"{self.code}: {error}") from None


def names_in_keys(kind: TaskType) -> list[str]:
    """The arguments that a type's keys are made of."""
    return [name for label in KEYS for name in names_in(getattr(kind, label) or "")]


class Registry:
    """The handlers of one program, each under its type's code."""

    def __init__(self) -> None:
        self._handlers: dict[str, Handler] = {}
        self.edition = 0  # moves with every handler that is added

    def add(self, handler: Handler) -> None:
        known = self._handlers.get(handler.code)
        if known is not None and known.place != handler.place:
            raise Invalid(f"two handlers for {handler.code}: {known.place} and {handler.place}")
        if known is not None and _written_twice(known.function, handler.function):
            raise Invalid(f"two handlers for {handler.code} in {handler.place}: rename one, or give it another code")
        self._handlers = {**self._handlers, handler.code: handler}  # replaced: another thread may iterate over it
        self.edition += 1

    def __getitem__(self, code: str) -> Handler:
        return self._handlers[code]

    def get(self, code: str) -> Handler | None:
        return self._handlers.get(code)

    def __iter__(self) -> Iterator[Handler]:
        return iter(self._handlers.values())

    def __len__(self) -> int:
        return len(self._handlers)


def _written_twice(one: Any, other: Any) -> bool:
    """Whether two functions of one name are in the same file, as a function that was loaded again is."""
    code, again = getattr(one, "__code__", None), getattr(other, "__code__", None)
    if code is None or again is None or code.co_filename.startswith("<"):
        return False
    return bool(code.co_filename == again.co_filename and code.co_firstlineno != again.co_firstlineno)


def load_module(name: str) -> Any:
    """The module a person named, from the folder they are in or anywhere Python looks."""
    if "" not in sys.path and "." not in sys.path:
        sys.path.insert(0, "")
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(error.name + ".")):
            raise Invalid(f"no module {name}") from None
        raise
