"""Which failures to connect to PostgreSQL pass by themselves, and which only a person can remove."""

import shutil
import socket
import tempfile
from pathlib import Path
from urllib.parse import quote, urlsplit

import psycopg
import pytest

from headgate.core.errors import Unavailable, Unreachable
from headgate.store.store import open_store
from lab.postgres import Postgres


def failure(url: str) -> Unavailable:
    with open_store(url) as store, pytest.raises(Unavailable) as raised:
        store.migration_plan()
    return raised.value


@pytest.fixture(scope="module")
def guarded():
    """A server that asks one of its users for a password."""
    folder = Path(tempfile.mkdtemp(prefix="headgate-guarded-"))
    with Postgres(folder) as server:
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute("CREATE USER guarded PASSWORD 'right'")
            connection.execute("CREATE USER nobody NOLOGIN")
            connection.execute("CREATE DATABASE shut")
            connection.execute("REVOKE CONNECT ON DATABASE shut FROM PUBLIC")
        rules = folder / "data" / "pg_hba.conf"
        rules.write_text(
            "host all guarded 127.0.0.1/32 scram-sha-256\nhost all headgate,nobody,absent 127.0.0.1/32 trust\n"
        )
        with psycopg.connect(server.url) as connection:
            connection.execute("SELECT pg_reload_conf()")
            while "guarded" not in str(connection.execute("TABLE pg_hba_file_rules").fetchall()):
                pass
        yield urlsplit(server.url)
    shutil.rmtree(folder)


@pytest.mark.parametrize(
    ("user", "rest"),
    [
        ("guarded:wrong", ""),
        ("guarded", ""),
        ("absent", ""),
        ("nobody", ""),
        ("a-stranger", ""),
        ("headgate", "nothing"),
        ("guarded:right", "shut"),
        ("headgate", "?sslmode=require"),
        ("headgate", "?sslmode=perhaps"),
        ("headgate", "?target_session_attrs=none"),
        ("headgate", "?keepalives=perhaps"),
        ("headgate", f"?options={quote('-cno_such_thing=1')}"),
    ],
)
def test_a_connection_that_can_never_work_is_no_server_that_is_away(guarded, user, rest):
    """Spec: A12"""
    error = failure(f"postgresql://{user}@127.0.0.1:{guarded.port}/{rest}")
    assert not isinstance(error, Unreachable)
    assert "wrong" not in f"{error} {error.__cause__}"


def test_a_server_that_does_not_answer_or_has_no_name_yet_may_come_back():
    """Spec: D9"""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    assert isinstance(failure(f"postgresql://headgate@127.0.0.1:{port}/nothing"), Unreachable)
    assert isinstance(failure("postgresql://headgate@nowhere.invalid/nothing"), Unreachable)
    assert isinstance(failure(f"postgresql://headgate@/nothing?host={quote('/no/such/folder')}"), Unreachable)


def test_a_server_with_no_free_connection_may_have_one_later(guarded):
    """Spec: D9"""
    with psycopg.connect(guarded.geturl(), autocommit=True) as connection:
        connection.execute("ALTER ROLE guarded CONNECTION LIMIT 0")
        try:
            error = failure(f"postgresql://guarded:right@127.0.0.1:{guarded.port}/postgres")
        finally:
            connection.execute("ALTER ROLE guarded CONNECTION LIMIT -1")
    assert isinstance(error, Unreachable)
