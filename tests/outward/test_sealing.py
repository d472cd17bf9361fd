"""Secrets at rest: sealed, bound to their place, readable with the right HEADGATE_SECRET and no other."""

import pytest

from headgate.core.errors import Invalid
from headgate.outward.sealing import MARK, Seals, Unopened, is_sealed

NEW, OLD = "the secret of this year", "the secret of last year"
SK = "canary-4711-canary-4711-canary"


def test_what_is_sealed_is_opened_and_shows_nothing():
    """Spec: B6"""
    sealed = Seals([NEW]).seal(SK, "type letter")
    assert sealed.startswith(MARK)
    assert is_sealed(sealed)
    assert not is_sealed(SK)
    assert "canary" not in sealed
    assert Seals([NEW]).open(sealed, "type letter") == SK


def test_the_same_secret_is_sealed_alike_for_one_place_and_differently_for_another():
    """A program that registers its types at each start changes nothing by it. Spec: B6"""
    seals = Seals([NEW])
    assert seals.seal(SK, "type a") == Seals([NEW]).seal(SK, "type a")
    assert len({seals.seal(SK, "type a"), seals.seal(SK, "type b"), Seals([OLD]).seal(SK, "type a")}) == 3


def test_without_a_secret_nothing_is_sealed_and_the_message_says_what_to_do():
    """Spec: B6"""
    assert not Seals([])
    with pytest.raises(Invalid, match="HEADGATE_SECRET, which is not set"):
        Seals([]).seal(SK, "type letter")


def test_secrets_are_rotated_newest_first():
    """Spec: B6"""
    before, during, after = Seals([OLD]), Seals([NEW, OLD]), Seals([NEW])
    old = before.seal(SK, "type letter")
    assert during.open(old, "type letter") == SK
    assert (before.is_current(old), during.is_current(old)) == (True, False)
    new = during.seal(during.open(old, "type letter"), "type letter")
    assert during.is_current(new)
    assert after.open(new, "type letter") == SK
    with pytest.raises(Unopened, match="type letter was sealed under another HEADGATE_SECRET"):
        after.open(old, "type letter")


@pytest.mark.parametrize("secrets", [[], [OLD]])
def test_another_secret_or_none_is_told_and_tells_nothing(secrets):
    """Spec: B6"""
    with pytest.raises(Unopened, match="sealed under another HEADGATE_SECRET") as caught:
        Seals(secrets).open(Seals([NEW]).seal(SK, "type letter"), "type letter")
    assert SK not in str(caught.value)


def test_a_seal_that_was_moved_or_damaged_does_not_open():
    """Spec: B6"""
    seals = Seals([NEW])
    sealed = seals.seal(SK, "type letter")
    with pytest.raises(Unopened, match="damaged, or was sealed for another place"):
        seals.open(sealed, "type parcel")
    for spoilt in (sealed[:-4] + "AAAA", sealed[:-1], sealed[: len(MARK) + 9]):
        with pytest.raises(Unopened):
            seals.open(spoilt, "type letter")
    with pytest.raises(Unopened):
        seals.open(SK, "type letter")
