"""The handlers of upkeep: what the library's folder has, beside what the lists say."""

from collections import Counter
from collections.abc import Iterator
from itertools import groupby

from headgate.packs import context
from headgate.packs.media import types
from headgate.packs.media.items import Item, ItemState
from headgate.packs.media.policy import file_key
from headgate.packs.media.tasks import MEMORY_MEGABYTES, execution, items, library, tasks

PAGE = 200
CHECKED = "checked"


@tasks.handler(types.SCAN, isolation="process", memory_megabytes=MEMORY_MEGABYTES)
def scan() -> dict[str, int]:
    """Count the files of the library, and mark the items whose file is gone."""
    counts = Counter(files=0, bytes=0, missing=0)
    for file in library().files():
        counts.update(files=1, bytes=file.bytes)
        context().progress(counts["files"], note="files")
    for page in pages_with_files():
        for item in page:
            if item.state is not ItemState.MISSING and library().state_of(item) is ItemState.MISSING:
                counts["missing"] += items().mark_missing(item.subscription_id, item.key, **execution())
    return dict(counts)


@tasks.handler(types.ASSOCIATE, isolation="process", memory_megabytes=MEMORY_MEGABYTES)
def associate() -> dict[str, int]:
    """Find the items that files of the library belong to, as those that somebody copied there."""
    counts = Counter(files=0, associated=0)
    for subscription_id, files in groupby(library().files(), key=lambda file: file.subscription_id):
        wanted = {} if subscription_id is None else wanted_items(subscription_id)
        for file in files:
            counts["files"] += 1
            if file.bytes and file.key in wanted:
                counts["associated"] += mark_downloaded(wanted[file.key], file.path, file.bytes)
    return dict(counts)


def wanted_items(subscription_id: int) -> dict[str | None, Item]:
    """The items of a subscription that have no file, by the key that their file would have."""
    found: dict[str | None, Item] = {}
    after = 0
    while page := items().find(subscription_id, (ItemState.LISTED, ItemState.MISSING), after=after, limit=PAGE):
        found |= {file_key(item.key): item for item in page}
        after = page[-1].id
    return found


@tasks.handler(types.CHECK, isolation="process", memory_megabytes=MEMORY_MEGABYTES)
def check() -> dict[str, int]:
    """Check that each downloaded file exists, can be read and has its size; others are downloaded again."""
    after, before = context().restore(CHECKED, (0, {}))
    counts = Counter({"downloaded": 0, "missing": 0, "broken": 0} | before)
    for page in pages_with_files(after):
        for item in page:
            state = library().state_of(item)
            counts[state.value] += 1
            if state is not item.state:
                mark(item, state)
        context().checkpoint(CHECKED, (page[-1].id, counts))  # another try continues here
    return dict(counts)


def mark(item: Item, state: ItemState) -> None:
    """Write down what became of an item's file."""
    if state is ItemState.MISSING:
        items().mark_missing(item.subscription_id, item.key, **execution())
    elif state is ItemState.BROKEN:
        items().mark_broken(item.subscription_id, item.key, **execution())
    else:
        mark_downloaded(item, item.path or "", item.bytes or 0)


def mark_downloaded(item: Item, path: str, size: int) -> bool:
    return items().mark_downloaded(item.subscription_id, item.key, path=path, bytes=size, **execution())


def pages_with_files(after: int = 0) -> Iterator[list[Item]]:
    """The tenant's items that have, or had, a file, by pages."""
    while page := items().with_files(context().tenant_id, after=after, limit=PAGE):
        yield page
        after = page[-1].id
