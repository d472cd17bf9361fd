"""Addresses on the web that users name: which of them yt-dlp may be sent to."""

import re

from headgate.packs import Allowed, Invalid, checked_target, read_settings
from headgate.packs.media.settings import MediaSettings

MOST_URL = 4096
_ORIGIN = re.compile(r"https?://[^/?#]+", re.ASCII)


def check_url(url: str) -> None:
    """Raise `Invalid` unless it is the address of a web page that may be asked for here."""
    checked_url(url, read_settings(MediaSettings).allowed)


def checked_url(url: str, allowed: Allowed) -> str:
    """The address; `Invalid` for what is none of the web, and for what leads where requests may not go.

    yt-dlp takes files, searches and options as well. What a name leads to is judged when the request is made.
    """
    origin = _ORIGIN.match(url)
    if origin is None or len(url) > MOST_URL:
        raise Invalid(f"url: use an address that begins with https:// or http://, of at most {MOST_URL} characters")
    if any(character.isspace() or not character.isprintable() for character in url):
        raise Invalid("url: remove spaces and control characters")
    if "@" in origin[0]:
        raise Invalid("url: remove the user name and the password, and store a cookie of the site instead")
    checked_target(f"{origin[0]}/", "url", allowed)
    return url
