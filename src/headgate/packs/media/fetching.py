"""The handlers of requests: what a site has, how much of it, and the files themselves. yt-dlp does the asking."""

from typing import Any

from headgate.packs import Call, Fatal, Snooze, context
from headgate.packs.media import types
from headgate.packs.media.items import WANTED, Item, ItemState, ListedItem
from headgate.packs.media.listing import Listing, item_of
from headgate.packs.media.policy import COLLECTION, FILE, ITEM, PROGRESS
from headgate.packs.media.subscriptions import Subscriptions
from headgate.packs.media.tasks import MEMORY_MEGABYTES, execution, items, library, tasks
from headgate.packs.media.visit import Profile, Visit, subscription_of, takes_turns

SUBMITTED_TOGETHER = 200
LISTED = "listed"


@tasks.handler(types.EXPECTED_TOTAL, isolation="process", memory_megabytes=MEMORY_MEGABYTES)
@takes_turns
def expected_total(
    subscription_id: int | None = None,
    url: str | None = None,
    requires_cookie: bool | None = None,
    ua_profile: Profile | None = None,
) -> dict[str, int]:
    """Ask how many items a collection has, by one look at it."""
    visit = Visit(url or subscription_of(subscription_id).url, requires_cookie, ua_profile)
    found: dict[str, Any] = {}
    visit.run(visit.policy.expected_total(visit.request), lambda kind, record: found.setdefault(kind, record))
    total = found[COLLECTION].get("playlist_count") if COLLECTION in found else len(found)  # a video is one item
    if total is None:
        raise Fatal("the site does not say how many items the collection has: fetch its list")
    if subscription_id is not None:
        Subscriptions(tasks.store.database).set_expected_total(subscription_id, total, **execution())
    return {"expected_total": total}


@tasks.handler(types.PARSE, isolation="process", memory_megabytes=MEMORY_MEGABYTES)
@takes_turns
def parse(
    url: str | None = None,
    subscription_id: int | None = None,
    requires_cookie: bool | None = None,
    ua_profile: Profile | None = None,
) -> dict[str, Any]:
    """Say what an address is: its title, how many items it has, and the first of them."""
    visit = Visit(url or subscription_of(subscription_id).url, requires_cookie, ua_profile)
    collection: dict[str, Any] = {}
    first: list[ListedItem] = []

    def take(kind: str, record: Any) -> None:
        if kind == COLLECTION:
            collection.update(record)
        elif kind == ITEM and (item := item_of(record, len(first) + 1)) is not None:
            first.append(item)

    visit.run(visit.policy.parse(visit.request), take)
    return {
        "title": collection.get("title") or (first[0].title if first else None),
        "expected_total": collection.get("playlist_count") if collection else len(first),
        "items": [{"key": item.key, "title": item.title, "url": item.url} for item in first],
    }


@tasks.handler(types.LIST_FETCH, isolation="process", memory_megabytes=MEMORY_MEGABYTES)
@takes_turns
def list_fetch(
    subscription_id: int | None = None,
    url: str | None = None,
    requires_cookie: bool | None = None,
    ua_profile: Profile | None = None,
    then_download: bool = False,
) -> Any:
    """List a subscription's collection, page by page, and if asked for submit the download of each item.

    What was listed stays: another try continues behind it, and so does another run when one takes too long.
    """
    subscription = subscription_of(subscription_id)
    visit = Visit(url or subscription.url, requires_cookie, ua_profile)
    listing = Listing(context().restore(LISTED, 0), lambda page, listing: write_page(subscription.id, page, listing))
    failure: Exception | None = None
    try:
        visit.run(visit.policy.list_from(visit.request, listing.listed), listing.take)
        listing.flush()
    except TimeoutError as error:
        listing.flush()
        if listing.got_on:
            return Snooze(0)  # the rest comes in another run, so that no run holds the subscription for hours
        failure = error
    except Exception as error:
        failure = error
    if failure is None:
        Subscriptions(tasks.store.database).mark_listed(subscription.id, **execution())
    elif not (then_download and visit.policy.uses_cache(failure, context().error_count, has_list(subscription.id))):
        raise failure
    else:
        context().log(f"no new list; downloading from the stored one: {failure}", "warning")
    return {
        "listed": listing.listed,
        "complete": failure is None and listing.listed < visit.policy.longest_list,
        "downloads": submit_downloads(subscription.id) if then_download else 0,
    }


def write_page(subscription_id: int, page: list[ListedItem], listing: Listing) -> None:
    """Write a page of a list, and how far it is."""
    items().put_items(subscription_id, page, **execution())
    context().progress(listing.listed, listing.total, "items listed")
    context().checkpoint(LISTED, listing.listed)


def has_list(subscription_id: int) -> bool:
    return any(items().counts([subscription_id])[subscription_id].values())


def submit_downloads(subscription_id: int) -> int:
    """Submit a download of each item that is not in the library; returns how many there are.

    They are not children of the list: a family would hold the subscription's mutex as a whole, for two hours at most.
    Each waits for its own turn, and a download that is already open is not submitted again.
    """
    count, after = 0, 0
    while page := items().find(subscription_id, WANTED, after=after, limit=SUBMITTED_TOGETHER):
        context().submit_many([download_of(item, context().priority) for item in page], children=False).result()
        count, after = count + len(page), page[-1].id
    return count


def download_of(item: Item, priority: int) -> Call[Any]:
    """The download of an item."""
    return download.using(priority=priority).call(url=item.url, subscription_id=item.subscription_id, item=item.key)


@tasks.handler(types.DOWNLOAD, isolation="process", memory_megabytes=MEMORY_MEGABYTES)
@takes_turns
def download(
    url: str | None = None,
    subscription_id: int | None = None,
    item: str | None = None,
    requires_cookie: bool | None = True,
    ua_profile: Profile | None = None,
) -> dict[str, Any]:
    """Download one item into the library; a part that is there is continued, a whole file is left alone."""
    if not url:
        raise Fatal("download wants the url of an item; list_fetch with then_download downloads a whole list")
    found = file_here(subscription_id, item) or fetched_file(
        Visit(url, requires_cookie, ua_profile), subscription_id, item
    )
    if subscription_id is not None and item is not None:
        items().mark_downloaded(subscription_id, item, **found, **execution())
    return found


def file_here(subscription_id: int | None, key: str | None) -> dict[str, Any] | None:
    """The file of an item, if it is complete."""
    item = item_with_file(subscription_id, key)
    if item is None or library().state_of(item) is not ItemState.DOWNLOADED:
        return None
    return {"path": item.path, "bytes": item.bytes}


def remove_broken(subscription_id: int | None, key: str | None) -> None:
    """Remove an item's file if it is not complete: yt-dlp would leave it alone."""
    item = item_with_file(subscription_id, key)
    if item is not None and item.path is not None and library().state_of(item) is not ItemState.DOWNLOADED:
        library().remove(item.path)


def item_with_file(subscription_id: int | None, key: str | None) -> Item | None:
    """The item of a subscription, if it has, or had, a file."""
    if subscription_id is None or key is None:
        return None
    found = items().by_keys(context().tenant_id, [key])
    return next((item for item in found if item.subscription_id == subscription_id and item.path is not None), None)


def fetched_file(visit: Visit, subscription_id: int | None, key: str | None) -> dict[str, Any]:
    """The file that yt-dlp downloads."""
    paths: list[str] = []

    def take(kind: str, record: Any) -> None:
        if kind == PROGRESS:
            total = record.get("total_bytes") or record.get("total_bytes_estimate")
            context().progress(record.get("downloaded_bytes"), total, "bytes")
        elif kind == FILE:
            paths.append(record["filepath"])

    folder = library().folder(subscription_id)
    visit.run(
        visit.policy.download(visit.request, str(folder), key), take,
        in_turn=lambda: remove_broken(subscription_id, key),
    )  # fmt: skip
    if not paths:
        raise Fatal("there is nothing to download at this address")
    file = library().file(paths[-1])
    return {"path": file.path, "bytes": file.bytes}
