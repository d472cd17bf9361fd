"""Upkeep of the library: what is on the disk, beside what the lists say."""

from datetime import UTC, datetime

import pytest

from headgate.core.retry import Fatal
from headgate.packs.media.fetching import list_fetch
from headgate.packs.media.items import Item, ItemState
from headgate.packs.media.library import Library
from headgate.packs.media.upkeep import associate, check, scan
from tests.worker.conftest import working

PATIENCE = 120.0


def test_upkeep_finds_what_is_here_what_is_gone_and_what_is_damaged(curator):
    """Spec: A3"""
    birds = curator.subscribe("birds-4")

    def states():
        return [item.state for item in curator.items.find(birds.id)]

    def file(number):
        return curator.library / f"0/{birds.id}/a title [birds-4.{number}].mp4"

    with working(curator.app, due=True):
        list_fetch.submit_sync(birds.id).wait_sync(PATIENCE)
        file(1).parent.mkdir(parents=True)
        for number in (1, 2, 3):
            file(number).write_bytes(b"film")
        file(4).with_suffix(".mp4.part").write_bytes(b"fi")
        (curator.library / "0/single").mkdir()
        (curator.library / "0/single/other [birds-4.4].mp4").write_bytes(b"film")
        assert associate.submit_sync().wait_sync(PATIENCE).result == {"files": 4, "associated": 3}
        assert states() == [ItemState.DOWNLOADED] * 3 + [ItemState.LISTED]
        file(1).unlink()
        assert scan.submit_sync().wait_sync(PATIENCE).result == {"files": 3, "bytes": 12, "missing": 1}
        file(2).write_bytes(b"fi")
        found = check.submit_sync().wait_sync(PATIENCE).result
    assert found == {"downloaded": 1, "missing": 1, "broken": 1}
    assert states() == [ItemState.MISSING, ItemState.BROKEN, ItemState.DOWNLOADED, ItemState.LISTED]


@pytest.mark.parametrize(
    ("content", "size", "state"),
    [
        (b"film", 4, ItemState.DOWNLOADED),
        (b"", 0, ItemState.BROKEN),
        (b"fi", 4, ItemState.BROKEN),
        (None, 4, ItemState.MISSING),
    ],
)
def test_a_file_is_whole_if_it_is_there_and_has_its_size(tmp_path, content, size, state):
    """Spec: A3"""
    if content is not None:
        (tmp_path / "film").write_bytes(content)
    assert Library(str(tmp_path), 0).state_of(item_at("film", size)) is state


def test_a_file_that_goes_away_while_the_library_is_read_is_left_out(tmp_path):
    """Spec: A3"""
    library = Library(str(tmp_path), 0)
    folder = library.folder(7)
    (folder / "film [key].mp4").write_bytes(b"film")
    (folder / "film [key].mp4.part-Frag1").symlink_to(folder / "gone")  # it was there, and cannot be looked at now
    assert [(file.path, file.bytes, file.key) for file in library.files()] == [("0/7/film [key].mp4", 4, "key")]


def item_at(path, size):
    when = datetime(2026, 1, 1, tzinfo=UTC)
    return Item(1, 1, "key", 1, "title", "https://example.org", ItemState.DOWNLOADED, path, size, when, when)


def test_a_file_outside_the_library_is_none_of_it(tmp_path):
    """Spec: A3"""
    (tmp_path / "else").write_bytes(b"x")
    library = Library(str(tmp_path / "library"), 0)
    library.folder(7)
    with pytest.raises(Fatal, match="wrote no file into the library"):
        library.file(str(tmp_path / "else"))
