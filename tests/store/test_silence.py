"""A PostgreSQL that falls silent without hanging up, and a URL that cannot be read: both are told, neither waits."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from urllib.parse import urlsplit

import pytest

import headgate.store.db.pipeline as wire
import headgate.store.db.postgres as database
from headgate.core.errors import Invalid, Unavailable
from headgate.settings import Pooler, Settings
from headgate.store.db.migrate import migrate
from headgate.store.store import open_store
from tests.store.ears import PATIENCE, Ears

QUESTIONS = b"PQ"  # how a statement begins on the wire, and nothing of what comes before the first


class Proxy:
    """Between a store and its server; frozen, it takes everything and passes nothing on."""

    def __init__(self, url: str) -> None:
        there = urlsplit(url)
        self._server = (there.hostname, there.port)
        self._door = socket.create_server(("127.0.0.1", 0))
        self.url = url.replace(f":{there.port}", f":{self._door.getsockname()[1]}", 1)
        self.flowing = threading.Event()
        self.flowing.set()
        self.swallows = b""  # the kinds of messages that it does not pass on, though it flows
        self.swallowed = threading.Event()
        self._ends: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._start(self._serve)

    def _start(self, target: Callable[..., None], *args: socket.socket) -> None:
        self._threads.append(threading.Thread(target=target, args=args, daemon=True))
        self._threads[-1].start()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._door.accept()
            except OSError:
                return
            server = socket.create_connection(self._server)
            self._ends += client, server
            self._start(self._pump, client, server)
            self._start(self._pump, server, client)

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while text := source.recv(65536):
                self.flowing.wait()
                if text[:1] in self.swallows:
                    self.swallowed.set()
                    continue
                sink.sendall(text)
            sink.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self.flowing.set()
        for end in (self._door, *self._ends):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for end in (self._door, *self._ends):
            end.close()


@pytest.fixture
def proxy(postgres: str) -> Iterator[Proxy]:
    proxy = Proxy(postgres)
    yield proxy
    proxy.close()


def test_a_call_to_a_server_that_falls_silent_ends_and_the_next_goes_through_when_it_is_back(proxy, monkeypatch):
    """Spec: T09"""
    with open_store(proxy.url, pooler=Pooler.TRANSACTION) as store:
        store.lanes.all()
        proxy.flowing.clear()
        monkeypatch.setattr(wire, "EXCHANGE_SECONDS", 0.2)
        with pytest.raises(Unavailable, match="silent"):
            store.lanes.all()
        monkeypatch.undo()
        proxy.flowing.set()
        store.lanes.all()


def test_a_server_that_answers_no_question_does_not_hang_the_start(proxy):
    """Spec: T09"""
    proxy.swallows = QUESTIONS
    with open_store(proxy.url) as store, pytest.raises(Unavailable, match="silent"):
        store.database.write(migrate, 0.2)


def test_who_listens_tries_again_when_the_first_question_is_not_answered(proxy, monkeypatch):
    """Spec: T09"""
    monkeypatch.setattr(database, "CONNECT_FOR_NEWS_SECONDS", 0.2)
    proxy.swallows = QUESTIONS
    with open_store(proxy.url) as store:
        ears = Ears(store)
        store.wakeups.listen()
        assert proxy.swallowed.wait(PATIENCE)
        proxy.swallows = b""
        assert ears.next_wake() == {}


def test_a_beat_is_over_before_its_lease_though_the_server_is_silent(proxy, monkeypatch):
    """Spec: B4"""
    monkeypatch.setattr(wire, "EXCHANGE_SECONDS", 3600.0)
    with open_store(proxy.url, pooler=Pooler.TRANSACTION) as store:
        worker_id = store.workers.register("w", lease_seconds=1)
        proxy.flowing.clear()
        with pytest.raises(Unavailable, match="silent"):
            store.workers.beat(worker_id)


def test_a_url_that_cannot_be_read_is_refused_without_its_password():
    with open_store("postgresql://me:se%zzcret@127.0.0.1/db") as store, pytest.raises(Invalid) as refused:
        store.lanes.all()
    assert "cret" not in str(refused.value)
    assert refused.value.__cause__ is None


def test_settings_are_shown_without_the_url():
    assert "secret" not in repr(Settings(url="postgresql://me:secret@127.0.0.1/db"))
