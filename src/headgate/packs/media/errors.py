"""Failures of yt-dlp as errors that the engine can judge: which are tried again, and when."""

import errno
import re
from dataclasses import dataclass
from typing import Any

import msgspec

from headgate.packs import DiskSpaceError, Fatal

RISK_CONTROL = 412
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
_STATUS = re.compile(r"HTTP Error (\d{3})")
_GEO = re.compile(r"not available (?:in|from) your (?:country|region|location)|geo.?restrict", re.IGNORECASE)
_PRIVATE = re.compile(
    r"private (?:video|playlist)|is private|log ?in|sign in|members.only|only available for registered", re.IGNORECASE
)
_REMOVED = re.compile(
    r"(?:been|was|is) (?:removed|deleted|taken down)|no longer (?:available|exists)|does not exist|video unavailable",
    re.IGNORECASE,
)
_TIMED_OUT = re.compile(r"timed? ?out", re.IGNORECASE)
_CUT = re.compile(r"bytes read|more expected|connection (?:aborted|reset|refused)|giving up after", re.IGNORECASE)


class SiteError(Exception):
    """The site refused, or said something that yt-dlp does not understand. The status decides whether to try again."""

    def __init__(self, message: str, status: int | None = None, retry_after: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.headers = {"Retry-After": retry_after} if retry_after else {}


class RiskControl(SiteError):
    """The site considers us a robot, for now (412). That does not mean the cookie is bad."""

    retryable = True


class Unavailable(Fatal):
    """The item is not available, and a retry does not help: it was removed, or is blocked in this country."""


class Private(Fatal):
    """The item is shown only to users who are signed in and may see it."""


@dataclass(frozen=True, slots=True)
class Failure:
    """What yt-dlp reported: the names of the errors, outermost first, with what the innermost of them knew."""

    message: str
    names: tuple[str, ...] = ()
    status: int | None = None
    retry_after: str | None = None
    errno: int | None = None

    @classmethod
    def of(cls, record: Any) -> "Failure":
        return msgspec.convert(record, cls)


def error_of(failure: Failure) -> Exception:
    """The error that a task fails with."""
    text = failure.message
    if failure.errno in _DISK_FULL:
        return DiskSpaceError(failure.errno, text)
    if failure.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return PermissionError(failure.errno, text)
    found = _STATUS.search(text)
    status = failure.status or (int(found[1]) if found else None)
    if status == RISK_CONTROL:
        return RiskControl(text, status)
    if status is not None:
        return SiteError(text, status, failure.retry_after)
    return _without_status(failure)


def _without_status(failure: Failure) -> Exception:
    text, names = failure.message, failure.names
    if "GeoRestrictedError" in names or _GEO.search(text):
        return Unavailable(text)
    if "UnsupportedError" in names or "NotAllowed" in names:
        return Fatal(text)
    if _PRIVATE.search(text):
        return Private(text)
    if _REMOVED.search(text):
        return Unavailable(text)
    if _TIMED_OUT.search(text):
        return TimeoutError(text)
    if "TransportError" in names or "ContentTooShortError" in names or _CUT.search(text):
        return ConnectionError(text)
    return SiteError(text)


def blames_cookie(error: BaseException) -> bool:
    """Whether a request failed as if its cookie were no longer accepted."""
    return isinstance(error, Private) or (isinstance(error, SiteError) and error.status in (401, 403))
