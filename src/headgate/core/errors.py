"""
HeadgateError
├── Refused             409  not possible in this state
│   ├── StaleExecution  409  another exec_id owns the task
│   ├── Paused          409  its lane, or everything, is paused
│   └── WorkerLost      409  this worker was declared lost: stop everything, register anew
├── Deadlock            409  a handler waits for what waits for the handler itself
├── NotFound            404
├── Invalid             422  the input breaks a rule
│   ├── UnknownType     422  no such task type; names the near ones
│   ├── BadArguments    422  a task's arguments do not fit its handler
│   └── KeyReused       422  an idempotency key came back with another body
└── Unavailable         503  store or broker did not answer
    ├── Unreachable     503  its server is away, and may come back
    ├── StoreFull       507  no room on the store's disk
    └── Busy            503  it would have had to wait for somebody; nothing was changed
"""

from types import MappingProxyType
from typing import Self

from headgate.core.reasons import Param, Params
from headgate.core.refusals import refusal_text


class HeadgateError(Exception):
    """Everything Headgate raises by itself.

    `status` is the HTTP answer it becomes. `code` is the stable name of what is wrong, and `params` has its values: one
    of `core/refusals.py` if it was made by `of`, else that of its class.
    """

    status = 500
    code = "error"
    params: Params = MappingProxyType({})

    @classmethod
    def of(cls, code: str, **params: Param) -> Self:
        """The error with this code; its text is made of the values."""
        error = cls(refusal_text(code, params))
        error.code, error.params = code, params
        return error

    @property
    def kind(self) -> str:
        """The code of its class, which is the same for all that are answered alike."""
        return type(self).code


class Refused(HeadgateError):
    status = 409
    code = "refused"


class StaleExecution(Refused):
    code = "stale-execution"


class Paused(Refused):
    code = "paused"


class WorkerLost(Refused):
    code = "worker-lost"


class Deadlock(HeadgateError):
    """A handler waits for something that cannot come before the handler lets go of something itself."""

    status = 409
    code = "deadlock"
    retryable = True  # False: it would come to the same again


class NotFound(HeadgateError):
    status = 404
    code = "not-found"


class Invalid(HeadgateError):
    status = 422
    code = "invalid"


class UnknownType(Invalid):
    code = "unknown-type"


class BadArguments(Invalid):
    code = "bad-arguments"


class KeyReused(Invalid):
    code = "key-reused"


class Unavailable(HeadgateError):
    status = 503
    code = "unavailable"


class Unreachable(Unavailable):
    pass


class StoreFull(Unavailable):
    status = 507
    code = "store-full"


class Busy(Unavailable):
    code = "busy"
