"""What the media pack keeps: subscriptions, items and cookies, on both databases, written only by who owns the task."""

import asyncio
import dataclasses
import json
from collections.abc import Iterator
from typing import Any

import pytest

from headgate.core.errors import Invalid, NotFound, StaleExecution
from headgate.core.machine import Returned
from headgate.core.task import Execution, NewTask
from headgate.outward.sealing import Seals, Unopened
from headgate.pack import find_packs
from headgate.pack_setup import set_up
from headgate.packs import Statement
from headgate.packs.media.cookies import Cookies
from headgate.packs.media.duties import ResealCookies
from headgate.packs.media.items import Items, ItemState, ListedItem
from headgate.packs.media.listing import Listing, item_of
from headgate.packs.media.subscription_tasks import SubscriptionTasks
from headgate.packs.media.subscriptions import Subscriptions
from headgate.settings import Settings
from headgate.store.claim.contract import ClaimRequest, Outcome
from headgate.store.store import Store, open_store
from headgate.threads import inline

SEALED = Statement("SELECT * FROM headgate_media_cookie")
LIST = "https://videos.example.org/list/7"
SECRET = "a secret of the server"  # noqa: S105 of nobody
PAGE = [ListedItem(f"v{number}", number, f"Video {number}", f"{LIST}/v{number}") for number in (1, 2, 3)]


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    with open_store(url) as opened:
        set_up(opened, find_packs(["media"]), migrate=True)
        yield opened


@pytest.fixture
def subscriptions(store: Store) -> Subscriptions:
    return Subscriptions(store.database)


@pytest.fixture
def items(store: Store) -> Items:
    return Items(store.database)


@pytest.fixture
def cookies(store: Store) -> Cookies:
    return Cookies(store.database, Seals([SECRET]))


def begin(store: Store, subscription_id: int = 1, tenant_id: int = 0) -> Execution:
    """A request of a subscription that runs."""
    ext = json.dumps({"subscription_id": subscription_id})
    store.tasks.submit(NewTask("list_fetch", ext, tenant_id=tenant_id))
    [execution] = store.claims.take(ClaimRequest(store.workers.register("tester"), 1)).executions
    return execution


def owner(execution: Execution) -> dict[str, Any]:
    return {"task_id": execution.id, "exec_id": execution.exec_id}


def test_a_subscription_is_its_tenants_alone_and_gone_when_it_is_deleted(subscriptions):
    """Spec: C5"""
    mine = subscriptions.create(1, " My list ", LIST, requires_cookie=True)
    other = subscriptions.create(2, "Another", LIST)
    assert (mine.name, mine.requires_cookie, mine.expected_total, mine.deleted_at) == ("My list", True, None, None)
    assert subscriptions.get(mine.id, 1) == mine
    assert subscriptions.find(1) == [mine]
    assert subscriptions.find(None) == [other, mine]
    assert subscriptions.find(None, cursor=other.id) == [mine]
    with pytest.raises(NotFound, match="no subscription"):
        subscriptions.get(mine.id, 2)
    with pytest.raises(NotFound):
        subscriptions.mark_deleted(mine.id, 2)
    deleted = subscriptions.mark_deleted(mine.id, 1)
    assert deleted.deleted_at is not None
    assert subscriptions.mark_deleted(mine.id, 1) == deleted
    assert subscriptions.find(1) == []
    with pytest.raises(NotFound):
        subscriptions.get(mine.id, 1)


@pytest.mark.parametrize("address", ["", "ftp://example.org", "https://", "https://example.org/a b", "example.org"])
def test_what_is_no_address_is_refused_and_nothing_is_made(subscriptions, address):
    with pytest.raises(Invalid, match="url"):
        subscriptions.create(0, "A list", address)
    with pytest.raises(Invalid, match="name"):
        subscriptions.create(0, "  ", LIST)
    assert subscriptions.find() == []


def test_a_page_that_is_fetched_again_forgets_no_file(store, subscriptions, items):
    """Spec: C6"""
    subscription = subscriptions.create(0, "A list", LIST)
    execution = begin(store, subscription.id)
    items.put_items(subscription.id, PAGE, **owner(execution))
    assert items.mark_downloaded(subscription.id, "v2", path="a/v2.mp4", bytes=7, **owner(execution))
    assert not items.mark_downloaded(subscription.id, "nobody", path="x", bytes=1, **owner(execution))
    items.put_items(subscription.id, [dataclasses.replace(PAGE[1], title="New")], **owner(execution))
    subscriptions.mark_listed(subscription.id, **owner(execution))
    [first, third] = items.find(subscription.id, [ItemState.LISTED])
    [second] = items.find(subscription.id, [ItemState.DOWNLOADED])
    assert (first.key, second.key, third.key) == ("v1", "v2", "v3")
    assert (second.title, second.path, second.bytes) == ("New", "a/v2.mp4", 7)
    assert items.find(subscription.id, after=first.id, limit=1) == [second]
    assert items.by_keys(0, ["v2", "v9"]) == items.with_files(0) == [second]
    assert items.by_keys(1, ["v2"]) == items.with_files(1) == []
    assert items.mark_missing(subscription.id, "v2", **owner(execution))
    assert not items.mark_broken(subscription.id, "v1", **owner(execution))
    counted = items.counts([subscription.id, 99])
    assert counted[subscription.id] == {"listed": 2, "downloaded": 0, "missing": 1, "broken": 0}
    assert sum(counted[99].values()) == 0
    assert subscriptions.get(subscription.id).listed_at is not None


def test_whoever_lost_its_task_writes_nothing(store, subscriptions, items, cookies):
    """Spec: B3"""
    subscription = subscriptions.create(0, "A list", LIST)
    cookie = cookies.put(0, "example.org", "SESSDATA=abc")
    execution = begin(store, subscription.id)
    items.put_items(subscription.id, PAGE[:1], **owner(execution))
    store.executions.settle([Outcome(execution, Returned())])
    strangers = {"task_id": execution.id, "exec_id": "not one"}
    for late in (owner(execution), strangers):
        for write in (
            lambda late=late: subscriptions.set_expected_total(subscription.id, 999, **late),
            lambda late=late: subscriptions.mark_listed(subscription.id, **late),
            lambda late=late: items.put_items(subscription.id, PAGE, **late),
            lambda late=late: items.mark_downloaded(subscription.id, "v1", path="x", bytes=1, **late),
            lambda late=late: items.mark_missing(subscription.id, "v1", **late),
            lambda late=late: cookies.count_failure(cookie, "Forbidden", limit=1, **late),
            lambda late=late: cookies.count_success(cookie, **late),
            lambda late=late: cookies.warn(cookie, **late),
        ):
            with pytest.raises(StaleExecution):
                write()
    assert subscriptions.get(subscription.id) == subscription
    assert items.counts([subscription.id])[subscription.id]["listed"] == 1
    assert cookies.find() == [cookie]


def test_an_execution_writes_nothing_of_another_tenant(store, subscriptions, items, cookies):
    """Spec: D9"""
    theirs = subscriptions.create(2, "Theirs", LIST)
    cookie = cookies.put(2, "example.org", "SESSDATA=abc")
    execution = begin(store, theirs.id, tenant_id=1)
    subscriptions.set_expected_total(theirs.id, 999, **owner(execution))
    items.put_items(theirs.id, PAGE, **owner(execution))
    assert not items.mark_downloaded(theirs.id, "v1", path="x", bytes=1, **owner(execution))
    assert cookies.count_failure(cookie, "Forbidden", limit=1, **owner(execution)) is None
    assert subscriptions.get(theirs.id) == theirs
    assert items.find(theirs.id) == []
    assert cookies.find() == [cookie]
    assert cookies.cookie_for(1, LIST) is None


def test_a_cookie_is_found_for_its_site_and_all_below_it(cookies):
    """Spec: C9"""
    site = cookies.put(0, ".Example.ORG ", "SESSDATA=abc")
    nearer = cookies.put(0, "videos.example.org", "SESSDATA=def")
    assert site.site == "example.org"
    assert cookies.cookie_for(0, "https://example.org/x") == site
    assert cookies.cookie_for(0, "https://www.example.org:8443/x") == site
    assert cookies.cookie_for(0, "https://hd.videos.example.org") == nearer
    assert cookies.cookie_for(0, "https://notexample.org") is None
    assert cookies.cookie_for(0, "no address") is None


def test_a_cookie_that_keeps_failing_is_disabled_and_a_warning_counts_nothing(store, cookies):
    """Spec: C9"""
    cookie = cookies.put(0, "example.org", "SESSDATA=abc")
    execution = begin(store)
    cookies.warn(cookie, **owner(execution))
    assert cookies.find()[0].failures == 0
    assert cookies.find()[0].last_warned_at is not None
    assert cookies.count_failure(cookie, "Forbidden", limit=2, **owner(execution)).disabled_at is None
    cookies.count_success(cookie, **owner(execution))
    assert cookies.find()[0].failures == 0
    cookies.count_failure(cookie, "Forbidden", limit=2, **owner(execution))
    disabled = cookies.count_failure(cookie, "Forbidden", limit=2, **owner(execution))
    assert (disabled.failures, disabled.last_error) == (2, "Forbidden")
    assert disabled.disabled_at is not None
    assert cookies.cookie_for(0, LIST) == disabled
    again = cookies.enable(0, "example.org")
    assert (again.failures, again.disabled_at, again.last_error) == (0, None, None)
    acts = [(act.kind, act.actor, act.object) for act in store.acts.find().items]
    assert acts[:3] == [
        ("cookie_enabled", "person", "cookie:example.org"),
        ("cookie_disabled", "system:media", "cookie:example.org"),
        ("cookie_put", "person", "cookie:example.org"),
    ]


def test_what_the_old_cookie_did_is_not_held_against_the_new_one(store, cookies):
    """Spec: C9"""
    old = cookies.put(0, "example.org", "SESSDATA=abc")
    execution = begin(store)
    cookies.count_failure(old, "Forbidden", limit=1, **owner(execution))
    new = cookies.put(0, "example.org", "SESSDATA=def")
    assert (new.id, new.failures, new.disabled_at) == (old.id, 0, None)
    assert cookies.count_failure(old, "Forbidden", limit=1, **owner(execution)) is None
    assert cookies.find() == [new]
    assert "def" in cookies.content(new)
    with pytest.raises(NotFound):
        cookies.content(old)
    cookies.delete(0, "example.org")
    assert cookies.find() == []
    for gone in (cookies.delete, cookies.enable):
        with pytest.raises(NotFound, match="no cookie for example"):
            gone(0, "example.org")


def test_a_cookie_is_sealed_for_its_place_under_the_servers_secret(store, cookies):
    """Spec: C9"""
    cookie = cookies.put(0, "example.org", "SESSDATA=abc")
    rows = store.database.read(lambda db: db.rows(SEALED))
    assert "abc" not in str(rows)
    with pytest.raises(Unopened, match="another HEADGATE_SECRET"):
        Cookies(store.database, Seals(["another secret of the server"])).content(cookie)
    with pytest.raises(Unopened):
        cookies.content(dataclasses.replace(cookie, site="other.org"))
    with pytest.raises(Invalid, match=r"HEADGATE_SECRET.*openssl rand"):
        Cookies(store.database, Seals([])).put(0, "example.org", "SESSDATA=abc")
    assert cookies.find() == [cookie]


def test_the_old_secret_can_go_once_the_duty_has_resealed_the_cookies(url, store, cookies, caplog):
    """Spec: C9"""
    made = [cookies.put(tenant_id, f"s{number}.org", f"SESSDATA={number}") for tenant_id in (0, 7) for number in (1, 2)]
    stranger = Cookies(store.database, Seals(["of somebody else"])).put(0, "s9.org", "SESSDATA=9")
    new = "the next secret of the server"
    duty = ResealCookies(store, Settings(url=url, secret=f"{new},{SECRET}"), inline)
    duty.page = 2
    assert asyncio.run(duty.turn()) == 4
    assert "s9.org was sealed under another HEADGATE_SECRET" in caplog.text
    alone = Cookies(store.database, Seals([new]))
    assert [alone.content(cookie).split()[-1] for cookie in made] == ["1", "2", "1", "2"]  # of the same revision
    with pytest.raises(Unopened):
        alone.content(stranger)
    assert asyncio.run(duty.turn()) == 0


def test_a_cookie_that_is_put_meanwhile_is_not_replaced_by_the_old_one(store, cookies, monkeypatch):
    """Spec: C9"""
    cookie, seals = cookies.put(0, "example.org", "SESSDATA=old"), Seals(["the next secret of the server", SECRET])
    read = store.database.read

    def read_then_put(ask):
        rows = read(ask)
        if rows and not put:
            put.append(cookies.put(0, "example.org", "SESSDATA=new"))
        return rows

    put: list[Any] = []
    with monkeypatch.context() as patched:
        patched.setattr(store.database, "read", read_then_put)
        assert Cookies(store.database, seals).reseal(limit=10) == 0
    assert cookies.content(put[0]).split()[-1] == "new"
    assert put[0].revision == cookie.revision + 1


def test_an_item_has_a_download_however_long_the_site_s_id_of_it_is(store):
    """Spec: C5"""
    keys = []
    for name in ("a", "b"):
        item = item_of({"id": name * 255, "url": LIST}, 1)
        assert item is not None
        arguments = {"subscription_id": (1 << 63) - 1, "item": item.key, "url": item.url}
        assert store.tasks.submit(NewTask("download", json.dumps(arguments))).created
        keys.append(item.key)
    assert len(set(keys)) == 2


@pytest.mark.parametrize(("url", "got_on"), [(LIST, True), (None, False)])
def test_a_list_gets_on_by_items_that_are_written_and_by_no_others(url, got_on):
    """Spec: C6"""
    listing = Listing(100, lambda page, listing: None)
    listing.take("item", {"id": "v101", "url": url, "playlist_index": 101})
    listing.flush()
    assert listing.got_on is got_on


def test_a_subscription_deleted_long_ago_is_removed_with_its_items_page_by_page(store, subscriptions, items):
    gone, kept = (subscriptions.create(0, "a list", LIST) for _ in range(2))
    for each in (gone, kept):
        execution = begin(store, each.id)
        items.put_items(each.id, PAGE, **owner(execution))
        store.executions.settle([Outcome(execution, Returned())])
    subscriptions.mark_deleted(gone.id)
    assert subscriptions.remove_deleted(3600, limit=2) == 0
    assert [subscriptions.remove_deleted(0, limit=2) for _ in range(3)] == [2, 2, 0]
    with pytest.raises(NotFound):
        subscriptions.deleted(gone.id)
    assert [len(items.find(each.id)) for each in (gone, kept)] == [0, 3]


def test_a_deleted_subscription_stays_until_its_open_tasks_have_ended(store, subscriptions):
    """Spec: A13"""
    busy, idle = (subscriptions.create(0, "a list", LIST) for _ in range(2))
    execution = begin(store, busy.id)
    for each in (busy, idle):
        subscriptions.mark_deleted(each.id)
    assert [subscriptions.remove_deleted(0, limit=2) for _ in range(2)] == [1, 0]
    assert SubscriptionTasks(store.database).deleted_with_tasks(limit=2) == [busy.id]
    store.executions.settle([Outcome(execution, Returned())])
    assert subscriptions.remove_deleted(0, limit=2) == 1
