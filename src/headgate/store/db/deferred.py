"""An answer that can be read after the commit, so that the last statements and the commit travel together."""

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Deferred(Generic[T]):
    """What an operation returns when its value is made from answers that have not arrived yet."""

    __slots__ = ("finish",)

    def __init__(self, finish: Callable[[], T]) -> None:
        self.finish = finish


def settled(result: T | Deferred[T]) -> T:
    """The value itself, asked for now."""
    return result.finish() if isinstance(result, Deferred) else result
