"""A program says who is told how its tasks ended; its secrets are sealed from the first moment."""

import logging

import pytest

from headgate import Headgate
from headgate.core.callbacks import Callback
from headgate.core.errors import Invalid
from headgate.outward.sealing import Seals
from headgate.settings import Settings
from tests.factories import sql

SECRET = "what the server keeps to itself"  # noqa: S105
SK = "-".join(["canary"] * 4)


def scan() -> None: ...


@pytest.fixture
def app(url):
    made = Headgate(settings=Settings(url=url, secret=SECRET))
    yield made
    made.close()


def declare(app, **security):
    return app.task(callback={"success": {"url": "https://example.org/x", "method": "PUT"}, "security": security})(scan)


def test_a_programs_callback_is_its_types(app, url):
    """Spec: B6"""
    told = declare(app, type="aksk", ak="us", sk=SK)
    assert "canary" not in repr(told._handler)
    assert app.store.types.by_code()["scan"].callback == told._handler.type.callback
    kept = told._handler.type.callback
    assert kept["success"] == {"url": "https://example.org/x", "method": "PUT"}
    assert Seals([SECRET]).open(kept["security"]["sk"], "type scan") == SK
    assert "canary" not in str(sql(url, "SELECT * FROM headgate_task_metadata"))


def test_a_program_that_starts_again_changes_nothing(app, url):
    """Spec: B6"""
    declare(app, type="aksk", ak="us", sk=SK)
    before = app.store.types.by_code(), sql(url, "SELECT count(*) FROM headgate_task_event")
    again = Headgate(settings=Settings(url=url, secret=SECRET))
    declare(again, type="aksk", ak="us", sk=SK)
    assert (again.store.types.by_code(), sql(url, "SELECT count(*) FROM headgate_task_event")) == before
    again.close()


def test_without_a_secret_a_program_with_one_to_keep_is_refused_at_once():
    """Spec: B6"""
    with pytest.raises(Invalid, match="HEADGATE_SECRET"):
        declare(Headgate(settings=Settings(url="sqlite://")), type="aksk", ak="us", sk=SK)


@pytest.mark.parametrize(
    ("callback", "message"),
    [
        ({"success": {"url": "ftp://example.org"}}, "callback.success.url: the URL must begin with https"),
        ({"success": {"url": "http://127.1/"}}, "callback.success.url: 127.1 is not an IPv4 address"),
        ({"error": {"url": "https://example.org", "method": "GET"}}, "callback.error.method must be POST or PUT"),
        ({"error": {}}, "callback.error must have a url"),
        ({"failure": {"url": "https://example.org"}}, "'failure' is not one of success, error, security"),
        ({"security": {"type": "magic"}}, "security must have a type"),
        ({"security": {"type": "aksk", "ak": "a b", "sk": SK}}, "security.ak must be"),
        ({"security": {"type": "aksk", "ak": "us", "sk": "short"}}, "security.sk must be 24 to 255"),
        ({"security": {"type": "aksk", "ak": "us"}}, "security.sk must be 24 to 255"),
    ],
)
def test_a_callback_that_could_never_be_sent_is_refused_where_it_is_declared(app, callback, message):
    """Spec: B6"""
    with pytest.raises(Invalid, match=message):
        app.task(callback=callback)(scan)
    assert list(app._registry) == []


def test_an_address_that_this_process_does_not_allow_is_warned_about_where_it_is_declared(caplog):
    """Spec: B6"""
    callback: Callback = {
        "success": {"url": "http://10.0.0.5:9000/told"},
        "error": {"url": "https://example.org/failed"},
        "security": {"type": "none"},
    }
    with caplog.at_level(logging.WARNING, "headgate"):
        Headgate("sqlite://").task(callback=callback)(scan)
        [line] = [record.getMessage() for record in caplog.records]
        assert "type scan" in line
        assert "http://10.0.0.5:9000/told" in line
        assert "HEADGATE_CALLBACK_ALLOW" in line
        caplog.clear()
        Headgate(settings=Settings(url="sqlite://", callback_allow="10.0.0.0/8")).task(callback=callback)(scan)
        assert caplog.records == []
