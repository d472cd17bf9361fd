"""Wake-ups on SQLite: sockets beside the file, wherever it is; those of the dead are swept away."""

import os
import socket
import stat
from pathlib import Path

import pytest

from headgate.core.task import NewTask, TaskType
from headgate.store.store import Store, open_store
from headgate.store.wakeup.sqlite import LONGEST_ADDRESS
from tests.store.ears import Ears


def at(path: Path) -> Store:
    store = open_store(f"sqlite:///{path}")
    store.migrate()
    store.types.put(TaskType("plain"))
    return store


def refuse(path: str) -> None:
    raise PermissionError(path)


def boxes(path: Path) -> list[str]:
    return [box.name for box in Path(f"{path}.wake").iterdir()]


@pytest.mark.parametrize("length", [1, LONGEST_ADDRESS, 250], ids=["short", "long", "longest"])
def test_news_are_heard_however_long_the_path_of_the_file_is(tmp_path, length):
    """Spec: X4"""
    folder = tmp_path / ("d" * length)
    folder.mkdir()
    with at(folder / "s.db") as store, at(folder / "s.db") as other:
        ears = Ears(store).listening()
        ears.wake_for(other.tasks.submit(NewTask("plain")).id)


def test_two_paths_to_one_file_lead_to_the_same_sockets(tmp_path):
    """Spec: X4"""
    (tmp_path / "there").symlink_to(tmp_path, target_is_directory=True)
    with at(tmp_path / "s.db") as store, at(tmp_path / "there" / "s.db") as other:
        ears = Ears(store).listening()
        ears.wake_for(other.tasks.submit(NewTask("plain")).id)


def test_the_socket_of_a_process_that_died_is_swept_away_and_the_living_are_told(tmp_path):
    """Spec: T01"""
    path = tmp_path / "s.db"
    with at(path) as store, at(path) as other:
        ears = Ears(store).listening()
        [living] = boxes(path)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as dead:
            file = Path(f"{path}.wake") / "dead.socket"
            (tmp_path / "w").symlink_to(file.parent)
            dead.bind(str(tmp_path / "w" / file.name))
        assert len(boxes(path)) == 2
        ears.wake_for(other.tasks.submit(NewTask("plain")).id)
        assert boxes(path) == [living]


def test_a_socket_that_cannot_be_swept_away_keeps_nobody_from_being_told(tmp_path, monkeypatch):
    """Spec: X4. The folder may belong to somebody else."""
    path = tmp_path / "s.db"
    with at(path) as store, at(path) as other:
        ears = Ears(store).listening()
        monkeypatch.chdir(f"{path}.wake")
        for number in range(5):  # the folder's order is nobody's choice
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as dead:
                dead.bind(f"{number}.socket")
        with monkeypatch.context() as patched:
            patched.setattr(os, "unlink", refuse)
            ears.wake_for(other.tasks.submit(NewTask("plain")).id)
        assert len(boxes(path)) == 6


def test_a_file_that_is_no_socket_is_left_alone(tmp_path):
    """Spec: X4"""
    path = tmp_path / "s.db"
    with at(path) as store, at(path) as other:
        ears = Ears(store).listening()
        (Path(f"{path}.wake") / "note").write_text("mine")
        ears.wake_for(other.tasks.submit(NewTask("plain")).id)
        assert "note" in boxes(path)


def test_one_who_began_to_listen_is_told_of_the_very_next_commit(tmp_path):
    path = tmp_path / "s.db"
    with at(path) as other:
        for _ in range(10):
            other.tasks.submit(NewTask("plain"))
            with at(path) as store:
                ears = Ears(store).listening()
                ears.wake_for(other.tasks.submit(NewTask("plain")).id)
            assert boxes(path) == []


def test_a_listener_that_has_too_much_to_read_holds_nobody_up_and_is_woken(tmp_path):
    """Spec: X4"""
    path = tmp_path / "s.db"
    with at(path) as store, at(path) as other:
        ears = Ears(store).listening()
        made = [other.tasks.submit(NewTask("plain")) for _ in range(200)]
        assert len(made) == 200
        assert ears.next_wake()


def test_a_damaged_message_ends_no_listener(tmp_path):
    """Spec: X12"""
    path = tmp_path / "s.db"
    with at(path) as store, at(path) as other:
        ears = Ears(store).listening()
        [box] = boxes(path)
        (tmp_path / "w").symlink_to(f"{path}.wake")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as damaged:
            for text in (b'["x",[],true,[1e999]]', b"\xff", b"", b"[" * 5_000, b'["x",[[1,1,1e999]],true,[]]'):
                damaged.sendto(text, str(tmp_path / "w" / box))
        ears.wake_for(other.tasks.submit(NewTask("plain")).id)


@pytest.mark.parametrize("umask", [0o000, 0o777], ids=oct)
def test_only_its_owner_may_touch_what_lies_beside_a_store(tmp_path, umask):
    """Spec: X12"""
    path = tmp_path / "s.db"
    before = os.umask(umask)
    try:
        store = at(path)
        Ears(store).listening()
    finally:
        os.umask(before)
    with store:
        modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in tmp_path.rglob("*")}
        [box] = boxes(path)
        private = dict.fromkeys(("s.db", "s.db-wal", "s.db-shm", "s.db.writer", box), 0o600)
        assert modes == private | {"s.db.wake": 0o700}


def test_what_lay_open_beside_a_store_is_closed_when_it_is_opened(tmp_path):
    """Spec: X12"""
    path = tmp_path / "s.db"
    with at(path) as store:
        Ears(store).listening()
    Path(f"{path}.writer").chmod(0o644)
    Path(f"{path}.wake").chmod(0o755)
    with at(path) as store:
        Ears(store).listening()
        assert stat.S_IMODE(Path(f"{path}.writer").stat().st_mode) == 0o600
        assert stat.S_IMODE(Path(f"{path}.wake").stat().st_mode) == 0o700


def test_a_store_in_memory_has_nobody_to_listen_to():
    """Spec: X4"""
    with open_store("sqlite://") as store:
        store.migrate()
        store.types.put(TaskType("plain"))
        ears = Ears(store)
        store.wakeups.listen()
        made = store.tasks.submit(NewTask("plain"))
        ears.wake_for(made.id)
        assert ears.silent
