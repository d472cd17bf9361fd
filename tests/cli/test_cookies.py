"""`headgate cookies`: a command of the media pack, there where the pack is on."""

import pytest

from headgate.outward.sealing import Seals
from headgate.packs.media.cookies import Cookies

SERVER_SECRET = "what the server keeps to itself"  # noqa: S105 of nobody


@pytest.fixture
def media(monkeypatch):
    monkeypatch.setenv("HEADGATE_PACKS", "media")
    monkeypatch.setenv("HEADGATE_SECRET", SERVER_SECRET)


def test_a_cookie_comes_from_a_file_and_is_never_shown(run, anywhere, media, folder):
    """Spec: C9"""
    assert run("migrate").code == 0
    (folder / "cookies.txt").write_text("SESSDATA=canary; other=1\n")
    put = run("cookies", "put", "example.org", "cookies.txt", "--tenant", "3")
    assert (put.code, put.out) == (0, "cookie of example.org stored\n")
    listed = run("cookies").out + run("cookies", "list").out + run("cookies", "--json", "list").out
    assert listed.count("example.org") == 3
    assert "canary" not in listed + put.out + put.err
    cookies = Cookies(anywhere.database, Seals([SERVER_SECRET]))
    [cookie] = cookies.find(3)
    assert "canary" in cookies.content(cookie)
    assert run("cookies", "enable", "example.org", "--tenant", "3").out == "cookie of example.org enabled\n"
    assert run("cookies", "delete", "example.org", "--tenant", "3").out == "cookie of example.org deleted\n"
    assert run("cookies", "delete", "example.org", "--tenant", "3").code == 3
    assert run("cookies").out == "no cookies\n"


def test_what_is_wrong_is_said_in_one_line_and_changes_nothing(run, anywhere, media, folder, monkeypatch):
    """Spec: C9"""
    assert run("migrate").code == 0
    (folder / "bad.txt").write_text("canary")
    (folder / "bytes.txt").write_bytes(b"\xff\xfe")
    (folder / "good.txt").write_text("a=b")
    for words, reason in (
        (("example.org", "bad.txt"), "not NAME=VALUE"),
        (("example.org", "bytes.txt"), "bytes.txt is not UTF-8 text"),
        (("example.org", "nothing.txt"), "nothing.txt cannot be read: No such file"),
        (("https://example.org", "good.txt"), "site: use the name of a host"),
    ):
        answer = run("cookies", "put", *words)
        assert (answer.code, reason in answer.err, answer.err.count("\n")) == (2, True, 1)
        assert "canary" not in answer.err
    monkeypatch.delenv("HEADGATE_SECRET")
    assert "openssl rand -hex 32" in run("cookies", "put", "example.org", "good.txt").err
    assert run("cookies").out == "no cookies\n"


def test_without_the_pack_there_is_no_such_command(run, anywhere, monkeypatch):
    """Spec: X13"""
    assert run("cookies").code == 2
    assert "cookies" not in run("--help").out
    monkeypatch.setenv("HEADGATE_PACKS", "media")
    assert "cookies" in run("--help").out
    monkeypatch.setenv("HEADGATE_PACKS", "nonsense")
    assert "Run background tasks" in run("--help").out
    assert "no pack 'nonsense'" in run("cookies").err
