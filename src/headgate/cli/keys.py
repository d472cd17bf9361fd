"""`headgate keys`: the keys of the HTTP API."""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any

import typer

from headgate.cli.command import Command
from headgate.cli.command_group import CommandGroup
from headgate.cli.options import PAGE
from headgate.cli.output import print_json, print_line, print_note
from headgate.cli.pages import all_after
from headgate.core.errors import Invalid
from headgate.core.keys import ROLES, Key, Role, secret_key
from headgate.environment import utc_now

commands = CommandGroup()


class RoleName(StrEnum):
    """The roles by the names that --role takes."""

    READ = "read"
    SUBMIT = "submit"
    AGENT = "agent"
    OPERATOR = "operator"
    ADMIN = "admin"


@commands.default
def show_keys(command: Command) -> None:
    """Show the keys of the HTTP API; create and revoke them.

    Without keys the API answers only this machine. Once there is a key, every
    request needs one.

    \b
    headgate keys create ci --role submit --tenant 7 --days 90
    headgate keys list
    headgate keys revoke 3
    """  # fmt: skip
    list_keys(command)


@commands.add("list")
def list_keys(command: Command) -> None:
    """List all keys, newest first. Their secrets are never shown."""
    command.answer_all(
        list(all_after(lambda after: command.store.keys.find(cursor=after, limit=PAGE))),
        key_json,
        ("ID", "NAME", "ROLE", "TENANT", "STATE", "CREATED", "EXPIRES", "LAST USED"),
        _row,
        right=("ID", "TENANT"),
        drop=("CREATED", "LAST USED", "EXPIRES"),
        none="no keys",
    )


@commands.add("create")
def create_key(
    command: Command,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Who or what the key is for.")],
    role: Annotated[
        RoleName, typer.Option(help="What it allows; each includes those before it, but agent stands alone.")
    ],
    tenant: Annotated[int | None, typer.Option(metavar="ID", help="Restrict it to a tenant.  [default: all]")] = None,
    days: Annotated[float | None, typer.Option(metavar="DAYS", help="Days until it expires.  [default: never]")] = None,
) -> None:
    """Create a key and show it once.

    If HEADGATE_SECRET is set, it also shows a secret key for signing requests.

    \b
    headgate keys create ops --role admin
    headgate keys create ci --role submit --tenant 7 --days 90
    """  # fmt: skip
    if tenant is not None and not -(1 << 63) <= tenant < 1 << 63:
        raise Invalid(f"--tenant {tenant} is out of range: it must fit into 64 bits")
    expires_at = _expiry(days)
    is_first = not command.store.keys.exist()
    key, text = command.store.keys.add(name, ROLES[role], tenant_id=tenant, expires_at=expires_at, actor=command.actor)
    secrets = command.settings.secrets
    signing = secret_key(secrets[0], key.id, key.digest) if secrets else None
    if command.as_json:
        print_json(key_json(key) | {"key": text} | ({"secret_key": signing} if signing else {}))
        return
    print_line(f"key         {text}")
    if signing:
        print_line(f"access key  {key.access_key}\nsecret key  {signing}")
    print_note("save it now: it is not shown again")
    if is_first:
        print_note("this is the first key: from now on every request needs a key, and the console asks for one")
        if key.role is not Role.ADMIN or tenant is not None:
            print_note("it cannot create others over HTTP: create one with --role admin too")


def _expiry(days: float | None) -> datetime | None:
    if days is None:
        return None
    if not 0 < days <= 36_500:
        raise Invalid(f"--days must be above 0 and at most 36500, not {days:g}")
    return utc_now() + timedelta(days=days)


@commands.add("revoke")
def revoke_key(command: Command, key_id: Annotated[int, typer.Argument(metavar="ID", help="Key ID.")]) -> None:
    """Revoke a key. Every server refuses it within seconds."""
    key = command.store.keys.revoke(key_id, actor=command.actor)
    command.answer(key_json(key), f"key {key.id} ({key.name}) revoked")


def key_json(key: Key) -> dict[str, Any]:
    """A key for programs."""
    names = ("id", "name", "tenant_id", "access_key", "created_at", "created_by", "expires_at", "revoked_at")
    return {name: getattr(key, name) for name in (*names, "last_used_at")} | {"role": key.role.word}


def _row(key: Key) -> tuple[Any, ...]:
    tenant = "all" if key.tenant_id is None else key.tenant_id
    expires, used = key.expires_at or "never", key.last_used_at or "never"
    return (key.id, key.name, key.role.word, tenant, _state(key), key.created_at, expires, used)


def _state(key: Key) -> str:
    if key.revoked_at is not None:
        return "revoked"
    return "active" if key.is_active(utc_now()) else "expired"
