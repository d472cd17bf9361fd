"""The text of a cookie: what people paste, as the Netscape file that yt-dlp reads. No message repeats any of it."""

import ipaddress
import re
from dataclasses import dataclass

from headgate.packs import Invalid

MOST_BYTES = 256 * 1024
HEADER = "# Netscape HTTP Cookie File\n"
HTTP_ONLY = "#HttpOnly_"
FIELDS = 7  # domain, for all below it, path, over TLS only, end, name, value
HINT = (
    "paste a Netscape cookie file (cookies.txt, as browsers' extensions export it),"
    " or the value of a Cookie header: SESSDATA=…; other=…"
)
_HOST = re.compile(r"(?=.{1,253}\Z)[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)+")
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


@dataclass(frozen=True, slots=True)
class _Line:
    """One cookie of the file."""

    domain: str
    text: str


def check_site(site: str) -> str:
    """A site's name in lower case: a host, which includes all its subdomains; `Invalid` for anything else."""
    name = site.strip().lower().removeprefix(".")
    if not (_HOST.fullmatch(name) or name == "localhost" or _is_address(name)):
        raise Invalid("site: use the name of a host, without https:// and without a path: example.org")
    return name


def sites_above(host: str) -> list[str]:
    """The sites a host can belong to: itself, and each domain above it."""
    host = host.lower().rstrip(".")
    if _is_address(host):
        return [host]
    parts = host.split(".")
    return [".".join(parts[start:]) for start in range(len(parts))]


def netscape_file(text: str, site: str) -> str:
    """The cookies of a site as a Netscape file, from such a file (of which other sites' are left out) or a header.

    `Invalid` for anything else.
    """
    if len(text.encode("utf-8", "replace")) > MOST_BYTES:
        raise Invalid(f"the cookie is larger than {MOST_BYTES // 1024} KiB")
    if not text.strip():
        raise Invalid(f"the cookie is empty: {HINT}")
    lines = _file_lines(text) if "\t" in text else _header_lines(text, site)
    ours = [line.text for line in lines if site in sites_above(line.domain) or line.domain in sites_above(site)]
    if not ours:
        raise Invalid(f"the cookie file has no cookie for {site}")
    return HEADER + "".join(f"{line}\n" for line in ours)


def _file_lines(text: str) -> list[_Line]:
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or (line.startswith("#") and not line.startswith(HTTP_ONLY)):
            continue
        fields = line.removeprefix(HTTP_ONLY).split("\t")
        if len(fields) != FIELDS:
            raise Invalid(f"line {number} of the cookie file has {len(fields)} fields, not {FIELDS}: {HINT}")
        domain, below, _, secure, end, name, _ = fields
        if {below, secure} - {"TRUE", "FALSE"} or not re.fullmatch(r"\d{0,12}(?:\.\d*)?", end) or not name:
            raise Invalid(f"line {number} of the cookie file is not in Netscape format: {HINT}")
        found.append(_Line(domain.lower().removeprefix("."), line))
    return found


def _header_lines(text: str, site: str) -> list[_Line]:
    pairs = re.sub(r"\Acookie:", "", text.strip(), flags=re.IGNORECASE).strip().rstrip(";")
    found = []
    for number, pair in enumerate(pairs.split(";"), 1):
        name, sign, value = pair.strip().partition("=")
        if not sign or not _NAME.fullmatch(name) or not value or not _is_plain(value):
            raise Invalid(f"part {number} of the cookie is not NAME=VALUE: {HINT}")
        found.append(_Line(site, "\t".join([*_scope(site), name, value])))
    return found


def _scope(site: str) -> list[str]:
    """The scope of a cookie that names none: the whole site over TLS, or one host if it is an address or localhost."""
    if _is_address(site) or site == "localhost":
        return [site, "FALSE", "/", "FALSE", "0"]
    return [f".{site}", "TRUE", "/", "TRUE", "0"]


def _is_plain(value: str) -> bool:
    return value.isascii() and value.isprintable() and " " not in value


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
