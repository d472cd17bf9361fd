"""What yt-dlp reports, as the classes that decide whether a task runs again."""

import errno
from datetime import UTC, datetime

import pytest

from headgate.core.retry import ErrorClass, classify, retry_after
from headgate.packs.media.errors import Failure, RiskControl, blames_cookie, error_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)
EXTRACTOR = ("ExtractorError", "YoutubeDLError", "Exception", "BaseException")


@pytest.mark.parametrize("status", [400, 401, 403, 404])
def test_what_the_site_refuses_is_fatal(status):
    """Spec: A5"""
    assert classify(error_of(Failure(f"HTTP Error {status}", status=status))) is ErrorClass.FATAL


def test_a_busy_site_is_asked_again_when_it_says():
    """Spec: A5"""
    error = error_of(Failure("HTTP Error 429: Too Many Requests", status=429, retry_after="7"))
    assert (classify(error), retry_after(error, NOW)) == (ErrorClass.RETRYABLE, 7.0)
    given_up = Failure("[download] Got error: HTTP Error 503: Service Unavailable. Giving up after 3 retries")
    assert classify(error_of(given_up)) is ErrorClass.RETRYABLE


def test_risk_control_is_tried_again_and_says_nothing_of_the_cookie():
    """Spec: A5, C9"""
    error = error_of(Failure("HTTP Error 412: Precondition Failed", EXTRACTOR, 412))
    assert isinstance(error, RiskControl)
    assert classify(error) is ErrorClass.RETRYABLE
    assert not blames_cookie(error)


@pytest.mark.parametrize(
    "failure",
    [
        Failure("unable to write data: [Errno 28] No space left on device", errno=errno.ENOSPC),
        Failure("unable to open for writing", errno=errno.EACCES),
        Failure("This video is not available in your country", ("GeoRestrictedError", *EXTRACTOR)),
        Failure("[site] 7: This video has been removed by the uploader", EXTRACTOR),
        Failure("[site] 7: Private video", EXTRACTOR),
        Failure("Unsupported URL: https://example.org/", ("UnsupportedError", *EXTRACTOR)),
        Failure("yt-dlp may not start rtmpdump", ("DownloadError", "NotAllowed", "OSError")),
    ],
)
def test_what_no_other_try_can_mend_is_fatal(failure):
    """Spec: A5"""
    assert classify(error_of(failure)) is ErrorClass.FATAL


@pytest.mark.parametrize(
    "failure",
    [
        Failure("Unable to download webpage: Failed to resolve 'example.org'", ("TransportError", "RequestError")),
        Failure("[download] Got error: 10000 bytes read, 2832 more expected. Giving up after 1 retries"),
        Failure("The read operation timed out", ("TransportError",)),
    ],
)
def test_a_network_that_fails_is_tried_again(failure):
    """Spec: A5"""
    error = error_of(failure)
    assert isinstance(error, ConnectionError | TimeoutError)
    assert classify(error) is ErrorClass.RETRYABLE


def test_what_nobody_understands_follows_the_types_policy():
    """Spec: A5"""
    assert classify(error_of(Failure("Unable to extract title", EXTRACTOR))) is ErrorClass.UNKNOWN


@pytest.mark.parametrize(
    ("failure", "blamed"),
    [
        (Failure("", status=401), True),
        (Failure("", status=403), True),
        (Failure("Login required"), True),
        (Failure("", status=404), False),
        (Failure("", status=429), False),
        (Failure("timed out"), False),
    ],
)
def test_only_a_refusal_of_the_person_counts_against_the_cookie(failure, blamed):
    """Spec: C9"""
    assert blames_cookie(error_of(failure)) is blamed
