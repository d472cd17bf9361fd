"""Shares as settings write them."""

import pytest

from headgate.core.errors import Invalid
from headgate.core.limits import Rate
from headgate.core.shares import KEY_SHARE, ShareLimits, parse_share


def test_what_a_setting_leaves_out_is_as_usual_and_none_is_no_limit():
    """Spec: X12"""
    usual = parse_share("key_share", KEY_SHARE)
    found = parse_share("key_share", " rate=0.5/3, polls=none,", KEY_SHARE)
    assert found == ShareLimits(Rate(0.5, 3), usual.requests, usual.threads, None, usual.streams)
    assert parse_share("key_share", "none", KEY_SHARE) == ShareLimits()
    assert parse_share("key_share", "", KEY_SHARE) == usual


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("rate=5", "is not rate=RATE/BURST"),
        ("rate=0/5", "'rate=0/5': "),
        ("polls=0", "is not polls=NUMBER"),
        ("polls", "is not polls=NUMBER"),
        ("pols=5", "expected one of rate, requests, threads, polls, streams"),
    ],
)
def test_a_share_that_cannot_be_read_is_named(text, words):
    """Spec: X12"""
    with pytest.raises(Invalid, match=r"^tenant_share: ") as refused:
        parse_share("tenant_share", text)
    assert words in str(refused.value)


def test_a_small_server_has_fewer_open_for_long():
    """Spec: X12"""
    limits = ShareLimits(polls=500, streams=None).at_most(10, 5)
    assert (limits.polls, limits.streams) == (10, None)
