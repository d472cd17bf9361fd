"""Cookies as downloads use them: they open what is gated, are counted when they fail, and show nowhere."""

import logging
import sqlite3

from headgate.core.states import State
from headgate.packs.media.cookies import Cookies
from headgate.packs.media.fetching import download
from headgate.packs.media.tasks import tasks
from tests.worker.conftest import working

PATIENCE = 120.0
CANARY = "canary-77aa41b09e"
SITE = "127.0.0.1"


def cookies_of(curator):
    assert curator.app.store is tasks.store
    return Cookies(curator.app.store.database, tasks.seals)


def ended(curator, name):
    """The download of a file, when its only try has ended."""
    task = download.using(max_error_count=0).submit_sync(f"{curator.site.address}/file/{name}.mp4")
    task.wait_sync(PATIENCE)
    return task.record_sync()


def everything_stored(path):
    with sqlite3.connect(path) as connection:
        text = "\n".join(connection.iterdump())
    connection.close()
    return text


def test_a_cookie_opens_what_is_gated_and_shows_nowhere(curator, tmp_path, caplog, environment):
    """Spec: C7, C9"""
    caplog.set_level(logging.DEBUG)
    environment.setenv("COOKIE_FAILURE_LIMIT", "2")
    cookies = cookies_of(curator)
    with working(curator.app):
        unknown = ended(curator, "members-1.1")
        cookies.put(0, SITE, f"member=yes; SESSDATA={CANARY}")
        assert ended(curator, "members-1.1").status is State.SUCCEEDED
        assert CANARY in curator.site.requests[-1].cookie
        risky = ended(curator, "status-412-1.1")
        assert cookies.find(0)[0].failures == 0
        assert cookies.find(0)[0].last_warned_at is not None
        refused = [ended(curator, "status-403-1.1") for _ in range(2)]
        [cookie] = cookies.find(0)
        assert (cookie.failures, cookie.last_error, cookie.disabled_at is None) == (2, "SiteError", False)
        disabled = ended(curator, "members-1.2")  # asked for without it
    problems = [(task.error_info or "").splitlines()[0] for task in (unknown, *refused, disabled)]
    assert ["HTTP Error 403" in problem for problem in problems] == [True] * 4
    assert [problem.removeprefix("SiteError: ").split(":")[0] for problem in problems] == [
        "there is no cookie for this site",
        f"the site refused the cookie of {SITE}",
        f"the site refused the cookie of {SITE} and it is disabled now",
        f"the cookie of {SITE} is disabled",
    ]
    told = caplog.text + everything_stored(tmp_path / "store.db") + (risky.error_info or "")
    assert "412" in told
    assert CANARY not in told
    assert [path for path in tmp_path.rglob("*") if path.suffix == ".cookies"] == []
