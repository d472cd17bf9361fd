"""`headgate keys`: who may come in over HTTP."""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any

import typer

from headgate.cli.formatting import format_time
from headgate.cli.options import Json, Url
from headgate.cli.output import note, print_json, print_table, say
from headgate.cli.stores import existing_store
from headgate.core.errors import Invalid
from headgate.core.keys import ROLES, Key, secret_key
from headgate.environment import utc_now
from headgate.settings import load
from headgate.store.store import Store

PAGE = 200
commands = typer.Typer(rich_markup_mode=None)


class RoleName(StrEnum):
    """The roles by the names that --role takes."""

    READ = "read"
    SUBMIT = "submit"
    AGENT = "agent"
    OPERATOR = "operator"
    ADMIN = "admin"


@commands.callback(invoke_without_command=True)
def show_keys(context: typer.Context, url: Url = None, as_json: Json = False) -> None:
    """Show the keys of the HTTP API; make them, end them.

    Without keys the API answers this machine only. From the first key on, nobody comes in without one.

    \b
    headgate keys create ci --role submit --tenant 7 --days 90
    headgate keys list
    headgate keys revoke 3
    """  # fmt: skip
    if context.invoked_subcommand is None:
        _show(url, as_json)


@commands.command("list")
def list_keys(url: Url = None, as_json: Json = False) -> None:
    """Show every key, newest first; never its secret, which is nowhere.

    \b
    headgate keys list
    """  # fmt: skip
    _show(url, as_json)


def _show(url: str | None, as_json: bool) -> None:
    with existing_store(url) as store:
        keys = _all_keys(store)
    if as_json:
        for key in keys:
            print_json(key_json(key))
        return
    print_table(
        ("ID", "NAME", "ROLE", "TENANT", "STATE", "CREATED", "LAST USED"),
        [_row(key) for key in keys],
        right=("ID", "TENANT"),
    )


def _all_keys(store: Store) -> list[Key]:
    found: list[Key] = []
    while page := store.keys.find(cursor=found[-1].id if found else None, limit=PAGE):
        found += page
    return found


@commands.command("create")
def create_key(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Whose it is, or what for.", show_default=False)],
    role: Annotated[RoleName, typer.Option(help="What it may do; each role what those before it may.")],
    tenant: Annotated[
        int | None, typer.Option(metavar="ID", help="Its tenant.  [default: none, and so all]", show_default=False)
    ] = None,
    days: Annotated[
        float | None, typer.Option(metavar="DAYS", help="How long it is good.  [default: for ever]", show_default=False)
    ] = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Make a key. It is shown this once.

    With HEADGATE_SECRET set there is a secret key too, to sign requests with.

    \b
    headgate keys create ops --role admin
    headgate keys create ci --role submit --tenant 7 --days 90
    """  # fmt: skip
    if tenant is not None and not -(1 << 63) <= tenant < 1 << 63:
        raise Invalid("--tenant is out of range")
    secrets = load({"url": url}).secrets
    with existing_store(url) as store:
        is_first = not store.keys.exist()
        key, text = store.keys.add(name, ROLES[role], tenant_id=tenant, expires_at=_expiry(days))
    signing = secret_key(secrets[0], key.id, key.digest) if secrets else None
    if as_json:
        print_json(key_json(key) | {"key": text} | ({"secret_key": signing} if signing else {}))
        return
    say(f"key         {text}")
    if signing:
        say(f"access key  {key.access_key}\nsecret key  {signing}")
    note("keep it well: it is not shown again")
    if is_first:
        note("it is the first one: from now on every request needs a key, and the console asks for it")


def _expiry(days: float | None) -> datetime | None:
    if days is None:
        return None
    if not 0 < days <= 36_500:
        raise Invalid("--days is above 0, and 36500 at most")
    return utc_now() + timedelta(days=days)


@commands.command("revoke")
def revoke_key(
    key_id: Annotated[int, typer.Argument(metavar="ID", help="The key's number.", show_default=False)],
    url: Url = None,
    as_json: Json = False,
) -> None:
    """End a key for good. Every server refuses it within seconds.

    \b
    headgate keys revoke 3
    """  # fmt: skip
    with existing_store(url) as store:
        key = store.keys.revoke(key_id)
    if as_json:
        print_json(key_json(key))
    else:
        say(f"key {key.id} ({key.name}) is revoked")


def key_json(key: Key) -> dict[str, Any]:
    """A key for programs."""
    names = ("id", "name", "tenant_id", "access_key", "created_at", "created_by", "expires_at", "revoked_at")
    return {name: getattr(key, name) for name in (*names, "last_used_at")} | {"role": key.role.word}


def _row(key: Key) -> tuple[Any, ...]:
    tenant = "all" if key.tenant_id is None else key.tenant_id
    used = format_time(key.last_used_at) if key.last_used_at else "never"
    return (key.id, key.name, key.role.word, tenant, _state(key), format_time(key.created_at), used)


def _state(key: Key) -> str:
    if key.revoked_at is not None:
        return "revoked"
    if key.expires_at is None:
        return "good"
    return f"until {format_time(key.expires_at)}" if key.is_active(utc_now()) else "expired"
