"""Sessions at the console: they end by age, for want of use, and when somebody signs out."""

import pytest

from headgate.core.keys import Role, digest_of
from tests.factories import sql

IDLE, LONGEST = 600.0, 3600.0


@pytest.fixture
def key(store):
    return store.keys.add("k", Role.OPERATOR)[0]


def test_a_session_is_found_by_its_tokens_hash_and_the_token_is_kept_nowhere(store, key, url):
    """Spec: X7"""
    session, token = store.sessions.begin(key, LONGEST, actor="k")
    assert session.digest == digest_of(bytes.fromhex(token))
    assert store.sessions.get(session.digest, IDLE) == session
    assert session.key_id == key.id
    assert token not in str(sql(url, "SELECT * FROM headgate_session")) + str(
        sql(url, "SELECT * FROM headgate_task_event")
    )


def test_a_session_that_is_not_used_ends(store, key, clock):
    """Spec: X7"""
    session, _ = store.sessions.begin(key, LONGEST, actor="k")
    clock.advance(IDLE - 1)
    store.sessions.note_use(session.digest)
    clock.advance(IDLE - 1)
    assert store.sessions.get(session.digest, IDLE) == session
    clock.advance(2)
    assert store.sessions.get(session.digest, IDLE) is None


def test_a_session_ends_at_its_age_however_much_it_is_used(store, key, clock):
    """Spec: X7"""
    session, _ = store.sessions.begin(key, LONGEST, actor="k")
    for _ in range(7):
        clock.advance(IDLE - 100)
        store.sessions.note_use(session.digest)
    assert store.sessions.get(session.digest, IDLE) == session
    clock.advance(100)
    store.sessions.note_use(session.digest)
    assert store.sessions.get(session.digest, IDLE) is None


def test_signing_in_again_ends_the_session_that_was(store, key):
    """Spec: X7"""
    before, _ = store.sessions.begin(key, LONGEST, actor="k")
    after, _ = store.sessions.begin(key, LONGEST, actor="k", instead_of=before.digest)
    assert store.sessions.get(before.digest, IDLE) is None
    assert store.sessions.get(after.digest, IDLE) == after


def test_signing_in_and_out_is_on_record_and_signing_out_twice_is_once(store, key, url):
    """Spec: X7, A12"""
    session, _ = store.sessions.begin(key, LONGEST, actor="somebody")
    for _ in range(2):
        store.sessions.end(session.digest, actor="somebody")
    assert store.sessions.get(session.digest, IDLE) is None
    acts = sql(url, "SELECT kind, actor FROM headgate_task_event WHERE kind LIKE 'signed%' ORDER BY id")
    assert [tuple(act) for act in acts] == [("signed_in", "somebody"), ("signed_out", "somebody")]


def test_sessions_that_are_over_are_swept_out_by_new_ones(store, key, clock, url):
    """Spec: X7"""
    for _ in range(3):
        store.sessions.begin(key, LONGEST, actor="k")
    clock.advance(LONGEST + 1)
    store.sessions.begin(key, LONGEST, actor="k")
    assert len(sql(url, "SELECT 1 FROM headgate_session")) == 1
