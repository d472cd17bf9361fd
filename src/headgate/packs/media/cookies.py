"""Cookies of sites, one for each: sealed, counted when they fail, and disabled when they keep failing."""

import json
import logging
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from urllib.parse import urlsplit

from headgate.packs import (
    PERSON,
    Database,
    Db,
    NotFound,
    Noun,
    Row,
    Seals,
    Statement,
    Unopened,
    fence,
    moment,
    moment_or_none,
    reads,
    record_system,
    writes,
)
from headgate.packs.media.cookie_text import check_site, netscape_file, sites_above

MOST_COOKIES = 500  # that a list shows
MOST_CLASS = 100
SYSTEM = "system:media"
log = logging.getLogger("headgate.media")


@dataclass(frozen=True, slots=True)
class Cookie:
    """A site's cookie, without its content. `revision` tells the content apart from what was there before.

    One that is disabled is not used until somebody enables it, or puts a new one.
    """

    id: int
    tenant_id: int
    site: str
    revision: int
    failures: int
    disabled_at: datetime | None
    last_error: str | None
    last_warned_at: datetime | None
    created_at: datetime
    changed_at: datetime
    used_at: datetime | None


_COLUMNS = """
    id, tenant_id, site, revision, failures, disabled_at, last_error, last_warned_at, created_at, changed_at, used_at
"""
PUT = Statement(
    f"""
    INSERT INTO headgate_media_cookie (tenant_id, site, sealed, revision, failures, created_at, changed_at)
    VALUES (:tenant_id, :site, :sealed, 1, 0, {{now}}, {{now}})
    ON CONFLICT (tenant_id, site) DO UPDATE
       SET sealed = excluded.sealed, revision = headgate_media_cookie.revision + 1, failures = 0, disabled_at = NULL,
           last_error = NULL, last_warned_at = NULL, changed_at = excluded.changed_at
    RETURNING {_COLUMNS}
    """
)
LIST = Statement(
    f"""
    SELECT {_COLUMNS} FROM headgate_media_cookie
     WHERE :everyones OR tenant_id = :tenant_id ORDER BY tenant_id, site LIMIT {MOST_COOKIES}
    """
)
FOR_SITES = Statement(
    f"""
    SELECT {_COLUMNS} FROM headgate_media_cookie
     WHERE tenant_id = :tenant_id AND site {{in sites text}} ORDER BY length(site) DESC LIMIT 1
    """
)
SEALED = Statement("SELECT sealed FROM headgate_media_cookie WHERE id = :id AND revision = :revision")
SEALED_PAGE = Statement(
    """
    SELECT id, tenant_id, site, sealed FROM headgate_media_cookie WHERE id > :after ORDER BY id LIMIT :limit
    """
)
RESEAL = Statement("UPDATE headgate_media_cookie SET sealed = :sealed WHERE id = :id AND sealed = :before RETURNING 1")
HOLD = Statement(
    f"""
    SELECT {_COLUMNS} FROM headgate_media_cookie
     WHERE id = :id AND revision = :revision AND tenant_id = :tenant_id {{lock FOR UPDATE}}
    """
)
COUNT_FAILURE = Statement(
    """
    UPDATE headgate_media_cookie SET failures = failures + 1, last_error = :error, used_at = {now} WHERE id = :id
    """
)
COUNT_SUCCESS = Statement(
    """
    UPDATE headgate_media_cookie SET failures = 0, last_error = NULL, used_at = {now}
     WHERE id = :id AND revision = :revision AND tenant_id = :tenant_id
    """
)
DISABLE = Statement("UPDATE headgate_media_cookie SET disabled_at = {now} WHERE id = :id")
WARN = Statement(
    """
    UPDATE headgate_media_cookie SET last_warned_at = {now}, used_at = {now}
     WHERE id = :id AND revision = :revision AND tenant_id = :tenant_id
    """
)
ENABLE = Statement(
    f"""
    UPDATE headgate_media_cookie SET failures = 0, disabled_at = NULL, last_error = NULL
     WHERE tenant_id = :tenant_id AND site = :site RETURNING {_COLUMNS}
    """
)
DELETE = Statement("DELETE FROM headgate_media_cookie WHERE tenant_id = :tenant_id AND site = :site RETURNING id")


class Cookies(Noun):
    """Every tenant's cookies. Their content is sealed under HEADGATE_SECRET; only `content` opens it."""

    def __init__(self, database: Database, seals: Seals) -> None:
        super().__init__(database)
        self._seals = seals

    # for people

    @writes
    def put(self, db: Db, tenant_id: int, site: str, text: str, *, actor: str = PERSON) -> Cookie:
        """Keep a cookie for a site, in place of the one it had; it is enabled. `Invalid` if it cannot be one."""
        site = check_site(site)
        sealed = self._seals.seal(netscape_file(text, site), _place(tenant_id, site))
        cookie = _cookie(db.rows(PUT, tenant_id=tenant_id, site=site, sealed=sealed)[0])
        _record(db, "cookie_put", cookie, actor)
        return cookie

    @reads
    def find(self, db: Db, tenant_id: int | None = None) -> list[Cookie]:
        """The cookies of a tenant, or of all, by site."""
        return [_cookie(row) for row in db.rows(LIST, everyones=tenant_id is None, tenant_id=tenant_id)]

    @writes
    def enable(self, db: Db, tenant_id: int, site: str, *, actor: str = PERSON) -> Cookie:
        """Use a cookie again, and forget its failures."""
        site = check_site(site)
        rows = db.rows(ENABLE, tenant_id=tenant_id, site=site)
        if not rows:
            raise NotFound(f"no cookie for {site}")
        _record(db, "cookie_enabled", _cookie(rows[0]), actor)
        return _cookie(rows[0])

    @writes
    def delete(self, db: Db, tenant_id: int, site: str, *, actor: str = PERSON) -> None:
        """Remove a cookie, for good."""
        site = check_site(site)
        if not db.rows(DELETE, tenant_id=tenant_id, site=site):
            raise NotFound(f"no cookie for {site}")
        record_system(db, "cookie_deleted", actor, json.dumps({"object": f"cookie:{site}", "tenant_id": tenant_id}))

    # for a duty

    def reseal(self, *, limit: int) -> int:
        """Seal under the newest HEADGATE_SECRET what was sealed under an older one, page by page; how many there were.
        What does not open stays as it is, and is logged."""
        resealed, after = 0, 0
        while page := self._database.read(partial(_sealed_page, after=after, limit=limit)):
            old = [row for row in page if not self._seals.is_current(row[3])]
            resealed += self._reseal(old) if old else 0
            after = page[-1][0]
        return resealed

    @writes
    def _reseal(self, db: Db, cookies: list[Row]) -> int:
        resealed = 0
        for cookie_id, tenant_id, site, before in cookies:
            place = _place(tenant_id, site)
            try:
                sealed = self._seals.seal(self._seals.open(before, place), place)
            except Unopened as error:
                log.warning("%s", error)
            else:
                resealed += len(db.rows(RESEAL, id=cookie_id, sealed=sealed, before=before))
        return resealed

    # for an execution

    @reads
    def cookie_for(self, db: Db, tenant_id: int, url: str) -> Cookie | None:
        """The cookie of the site an address belongs to, disabled or not; the nearest, if there are several."""
        sites = sites_above(urlsplit(url).hostname or "")
        rows = db.rows(FOR_SITES, tenant_id=tenant_id, sites=sites)
        return _cookie(rows[0]) if rows else None

    def content(self, cookie: Cookie) -> str:
        """The cookie as a Netscape file: a secret. `Unopened` under another HEADGATE_SECRET."""
        rows = self._database.read(lambda db: db.rows(SEALED, id=cookie.id, revision=cookie.revision))
        if not rows:
            raise NotFound(f"the cookie for {cookie.site} was just replaced or removed")
        return self._seals.open(rows[0][0], _place(cookie.tenant_id, cookie.site))

    @writes
    def count_failure(
        self, db: Db, cookie: Cookie, error_class: str, *, limit: int, task_id: int, exec_id: str
    ) -> Cookie | None:
        """The site refused this cookie; the cookie as it is now, disabled at `limit` failures in a row.

        None if it was replaced or removed meanwhile: then nothing is counted.
        """
        this = {"id": cookie.id, "revision": cookie.revision, "tenant_id": fence(db, task_id, exec_id)}
        if not (held := db.rows(HOLD, **this)):
            return None
        before = _cookie(held[0])
        db.send(COUNT_FAILURE, id=cookie.id, error=error_class[:MOST_CLASS])
        if before.disabled_at is None and before.failures + 1 >= limit:
            db.send(DISABLE, id=cookie.id)
            _record(db, "cookie_disabled", before, SYSTEM, failures=before.failures + 1, error=error_class[:MOST_CLASS])
        return _cookie(db.rows(HOLD, **this)[0])

    @writes
    def count_success(self, db: Db, cookie: Cookie, *, task_id: int, exec_id: str) -> None:
        """The site accepted this cookie: failures begin anew."""
        tenant_id = fence(db, task_id, exec_id)
        db.send(COUNT_SUCCESS, id=cookie.id, revision=cookie.revision, tenant_id=tenant_id)

    @writes
    def warn(self, db: Db, cookie: Cookie, *, task_id: int, exec_id: str) -> None:
        """The site asks for fewer requests (412): not a failure of the cookie, but worth recording."""
        tenant_id = fence(db, task_id, exec_id)
        db.send(WARN, id=cookie.id, revision=cookie.revision, tenant_id=tenant_id)


def _sealed_page(db: Db, *, after: int, limit: int) -> list[Row]:
    return db.rows(SEALED_PAGE, after=after, limit=limit)


def _place(tenant_id: int, site: str) -> str:
    return f"media cookie {tenant_id} {site}"


def _record(db: Db, kind: str, cookie: Cookie, actor: str, **more: str | int) -> None:
    detail = {"object": f"cookie:{cookie.site}", "tenant_id": cookie.tenant_id}
    record_system(db, kind, actor, json.dumps(detail | more))


def _cookie(row: Row) -> Cookie:
    cookie_id, tenant_id, site, revision, failures, disabled, error, warned, created, changed, used = row
    return Cookie(
        cookie_id, tenant_id, site, revision, failures, moment_or_none(disabled), error, moment_or_none(warned),
        moment(created), moment(changed), moment_or_none(used),
    )  # fmt: skip
