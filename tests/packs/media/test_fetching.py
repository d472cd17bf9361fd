"""Requests as workers do them, by the real yt-dlp from the sample site."""

from functools import partial

import psutil

from headgate.core.states import State
from headgate.core.task import NewTask, TaskType
from headgate.packs.media.fetching import download, expected_total, list_fetch, parse
from headgate.packs.media.items import ItemState
from headgate.packs.media.sample_site import FILE_BYTES, RETRY_AFTER
from headgate.store.claim.contract import ClaimRequest
from headgate.store.db.statement import Statement
from headgate.store.reading.lists import Filter
from tests.packs.media.conftest import yt_dlps
from tests.worker.conftest import until, working

PATIENCE = 120.0
DOWNLOADS = Statement(
    "SELECT count(*), count(DISTINCT unique_key) FROM headgate_task WHERE status IN ('queued', 'blocked')"
)


def of_type(curator, code):
    return curator.app.store.tasks.find(Filter(type=code), limit=200).items


def test_a_list_is_fetched_and_each_item_downloaded_once(curator_on_each):
    """Spec: C5, C3"""
    curator = curator_on_each
    birds = curator.subscribe("birds-3")
    with working(curator.app, due=True):
        listed = list_fetch.using(priority=3).submit_sync(birds.id, then_download=True).wait_sync(PATIENCE)
        assert listed.result == {"listed": 3, "complete": True, "downloads": 3}
        until(lambda: [each.status for each in of_type(curator, "download")] == [State.SUCCEEDED] * 3, PATIENCE)
    downloads = of_type(curator, "download")
    assert {(each.parent_id, each.priority, each.mutex) for each in downloads} == {
        (None, 3, f"subscription:{birds.id}")
    }
    assert curator.files() == [f"0/{birds.id}/birds-3.{n} [birds-3.{n}].mp4" for n in (1, 2, 3)]
    items = curator.items.find(birds.id)
    assert [(each.state, each.bytes) for each in items] == [(ItemState.DOWNLOADED, FILE_BYTES)] * 3
    assert curator.subscriptions.get(birds.id).listed_at is not None
    assert len(yt_dlps(curator.runs)) == 4


def test_a_collection_of_999_is_999_tasks_that_no_second_click_doubles(curator):
    """Spec: C6, C13, A10"""
    store = curator.app.store
    store.lanes.set_capacity("requires_cookie", 0)
    birds = curator.subscribe("birds-999")
    with working(curator.app):
        assert expected_total.submit_sync(birds.id).wait_sync(PATIENCE).result == {"expected_total": 999}
        assert len(curator.site.requests) <= 3
        curator.site.requests.clear()
        first = list_fetch.submit_sync(birds.id, then_download=True).wait_sync(PATIENCE)
        assert len(curator.site.requests) <= 11
        second = list_fetch.submit_sync(birds.id, then_download=True).wait_sync(PATIENCE)
    assert first.result == second.result == {"listed": 999, "complete": True, "downloads": 999}
    assert store.database.read(lambda db: db.rows(DOWNLOADS)) == [(999, 999)]
    assert curator.subscriptions.get(birds.id).expected_total == 999
    [one] = store.tasks.find(Filter(type="download"), limit=1).items
    assert one.parent_id is None  # so that each holds the subscription for no longer than itself
    assert len(yt_dlps(curator.runs)) == 3


def test_subscriptions_run_side_by_side_each_in_turn_and_a_cancel_ends_the_tree(curator, environment):
    """Spec: C3, C10, C13, A10"""
    environment.setenv("YT_DLP_TURN_SECONDS", "0.5")
    store = curator.app.store
    slow, birds = curator.subscribe("slow-1"), curator.subscribe("birds-3")
    with working(curator.app, due=True):
        first = download.submit_sync(f"{curator.site.address}/file/slow-1.1.mp4", slow.id)
        until(lambda: (store.tasks.get(first.id).progress or "").find("bytes") > 0, PATIENCE)
        behind = expected_total.submit_sync(slow.id)
        beside = expected_total.submit_sync(birds.id)
        until(lambda: store.tasks.get(beside.id).status is State.RUNNING, PATIENCE)  # and waits for yt-dlp
        assert store.tasks.get(first.id).status is State.RUNNING
        assert store.tasks.get(behind.id).status is State.BLOCKED
        until(lambda: "snoozed" in [event.kind for event in store.events.of(beside.id)], PATIENCE)
        [yt_dlp] = [psutil.Process(pid) for pid in yt_dlps(curator.runs)]
        first.cancel_sync()
        assert first.wait_sync(PATIENCE).status is State.CANCELLED
        assert not yt_dlp.is_running()
        assert beside.wait_sync(PATIENCE).result == {"expected_total": 3}
        assert behind.wait_sync(PATIENCE).result == {"expected_total": 1}
    assert len(yt_dlps(curator.runs)) == 3
    assert beside.record_sync().error_count == 0


def test_a_list_that_fails_in_the_middle_goes_on_behind_what_is_listed(curator):
    """Spec: C6"""
    birds = curator.subscribe("weary-150")
    with working(curator.app, due=True):
        ended = list_fetch.submit_sync(birds.id).wait_sync(PATIENCE)
    assert ended.result == {"listed": 150, "complete": True, "downloads": 0}
    items = curator.items.find(birds.id, limit=200)
    assert [item.position for item in items] == list(range(1, 151))
    assert len({item.listed_at for item in items}) == 2  # a page is written once


def test_a_site_that_asks_to_wait_is_asked_again_no_sooner(curator):
    """Spec: A5"""
    with working(curator.app):
        task = parse.submit_sync(f"{curator.site.address}/list/status-429-3")
        until(lambda: curator.app.store.tasks.get(task.id).status is State.RETRYING, PATIENCE)
    record = curator.app.store.tasks.get(task.id)
    assert (record.start_time - record.update_date).total_seconds() >= RETRY_AFTER - 0.1
    assert record.error_info.startswith("SiteError: [HeadgateSample] status-429-3: Unable to download JSON metadata")


def test_an_address_is_told_what_it_is_and_one_that_is_none_fails_for_good(curator):
    """Spec: C5, A5"""
    with working(curator.app):
        told = parse.submit_sync(f"{curator.site.address}/list/birds-120").wait_sync(PATIENCE).result
        hopeless = [
            download.submit_sync(f"{curator.site.address}/file/status-404-1.1.mp4"),
            download.submit_sync("file:///etc/passwd"),
            expected_total.submit_sync(7),
            list_fetch.submit_sync(7, "http://127.0.0.1:1/"),
        ]
        assert [task.wait_sync(PATIENCE).status for task in hopeless] == [State.FAILED] * 4
    assert (told["title"], told["expected_total"], len(told["items"])) == ("birds 120", 120, 20)
    assert told["items"][0]["url"] == f"{curator.site.address}/file/birds-120.1.mp4"
    assert [task.record_sync().error_count for task in hopeless] == [1] * 4


def test_a_list_that_failed_twice_is_taken_from_here_if_downloads_wait_for_it(curator):
    """Spec: C7"""
    store = curator.app.store
    store.lanes.set_capacity("requires_cookie", 0)
    birds = curator.subscribe("birds-2")
    with working(curator.app, due=True):
        assert list_fetch.submit_sync(birds.id).wait_sync(PATIENCE).result["downloads"] == 0
        away = f"{curator.site.address}/list/status-412-2"
        ended = list_fetch.submit_sync(birds.id, away, then_download=True).wait_sync(PATIENCE)
    assert ended.result == {"listed": 0, "complete": False, "downloads": 2}
    assert len(of_type(curator, "download")) == 2


def test_a_broken_file_is_removed_in_the_turn_of_the_download_that_replaces_it(curator, environment):
    """Spec: C3"""
    environment.setenv("YT_DLP_TURN_SECONDS", "0.5")
    store, birds = curator.app.store, curator.subscribe("birds-1")
    store.types.put(TaskType("outside"))
    with working(curator.app, due=True):
        assert list_fetch.submit_sync(birds.id).wait_sync(PATIENCE).status is State.SUCCEEDED
        [item] = curator.items.find(birds.id)
        again = partial(download.submit_sync, item.url, birds.id, item.key)
        file = curator.library / again().wait_sync(PATIENCE).result["path"]
        whole = file.read_bytes()
        file.write_bytes(b"cut")
        store.tasks.submit(NewTask("outside"))
        worker_id = store.workers.register("outside", lease_seconds=1e6)
        [writer] = store.claims.take(ClaimRequest(worker_id, 1, types=frozenset({"outside"}))).executions
        assert store.holds.take(writer.id, writer.exec_id, "disk-writer").held
        task = again()
        until(lambda: "snoozed" in [event.kind for event in store.events.of(task.id)], PATIENCE)
        assert file.read_bytes() == b"cut"
        store.holds.release(writer.id, writer.exec_id, ["disk-writer"])
        assert task.wait_sync(PATIENCE).status is State.SUCCEEDED
    assert file.read_bytes() == whole
