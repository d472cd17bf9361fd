"""`headgate cookies`: the cookies of sites. What is in one comes from a file or from standard input."""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from headgate.packs import Invalid, Seals
from headgate.packs.cli import Command, CommandGroup, format_time, print_note
from headgate.packs.media.cookies import Cookie, Cookies

commands = CommandGroup()
COMMANDS = {"cookies": commands}

Site = Annotated[str, typer.Argument(metavar="SITE", help="Host name, including its subdomains: example.org.")]
Tenant = Annotated[int, typer.Option("--tenant", metavar="ID", help="Tenant that owns the cookie.")]


@commands.default
def show_cookies(command: Command) -> None:
    """Show the cookies of sites; store, enable and delete them.

    A cookie is stored sealed under HEADGATE_SECRET, and never shown.

    \b
    headgate cookies put example.org cookies.txt
    headgate cookies enable example.org
    headgate cookies delete example.org
    """  # fmt: skip
    list_cookies(command)


@commands.add("list")
def list_cookies(command: Command) -> None:
    """List all cookies, without their content."""
    command.answer_all(
        _cookies(command).find(),
        cookie_json,
        ("SITE", "TENANT", "STATE", "FAILURES", "LAST ERROR", "LAST USED"),
        _row,
        right=("TENANT", "FAILURES"),
        drop=("LAST USED",),
        none="no cookies",
    )


@commands.add("put")
def put_cookie(
    command: Command,
    site: Site,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="Cookie file.  [default: standard input]", show_default=False),
    ] = None,
    tenant: Tenant = 0,
) -> None:
    """Store the cookie of a site, replacing an earlier one.

    FILE is a Netscape cookie file (cookies.txt), or holds the value of a Cookie
    header: SESSDATA=…; other=…

    \b
    headgate cookies put example.org cookies.txt
    headgate cookies put example.org < header.txt
    """  # fmt: skip
    cookie = _cookies(command).put(tenant, site, _content(file), actor=command.actor)
    command.answer(cookie_json(cookie), f"cookie of {cookie.site} stored")


def _content(file: Path | None) -> str:
    if file is None:
        if sys.stdin.isatty():
            print_note("paste the cookie, then press Ctrl-D on a line of its own")
        return _decoded(sys.stdin.buffer.read(), "standard input")
    try:
        return _decoded(file.read_bytes(), str(file))
    except OSError as error:
        raise Invalid(f"{file} cannot be read: {error.strerror}") from None


def _decoded(data: bytes, name: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise Invalid(f"{name} is not UTF-8 text") from None


@commands.add("enable")
def enable_cookie(command: Command, site: Site, tenant: Tenant = 0) -> None:
    """Use a disabled cookie again, and reset its failure count."""
    cookie = _cookies(command).enable(tenant, site, actor=command.actor)
    command.answer(cookie_json(cookie), f"cookie of {cookie.site} enabled")


@commands.add("delete")
def delete_cookie(command: Command, site: Site, tenant: Tenant = 0) -> None:
    """Delete a cookie."""
    _cookies(command).delete(tenant, site, actor=command.actor)
    command.answer({"site": site, "deleted": True}, f"cookie of {site} deleted")


def _cookies(command: Command) -> Cookies:
    return Cookies(command.pack_store.database, Seals(command.settings.secrets))


def cookie_json(cookie: Cookie) -> dict[str, Any]:
    """A cookie for programs, without its content."""
    return {name: value for name, value in asdict(cookie).items() if name not in ("id", "revision")}


def _row(cookie: Cookie) -> tuple[Any, ...]:
    used = format_time(cookie.used_at) if cookie.used_at else "never"
    return (cookie.site, cookie.tenant_id, _state(cookie), cookie.failures, cookie.last_error or "", used)


def _state(cookie: Cookie) -> str:
    if cookie.disabled_at is not None:
        return f"disabled {format_time(cookie.disabled_at)}"
    return f"warned {format_time(cookie.last_warned_at)}" if cookie.last_warned_at else "in use"
