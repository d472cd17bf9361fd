"""The settings of the media pack: each field is a variable of the environment, in capitals."""

import math
from dataclasses import dataclass, fields

from headgate.packs import Allowed, Invalid

PROFILES = ("desktop", "mobile", "alt")


@dataclass(frozen=True, slots=True)
class MediaSettings:
    """What is configured, as `LIST_FETCH_CMD_TIMEOUT=120`."""

    expected_total_timeout: float = 30.0  # seconds that yt-dlp may take: to say how many items a collection has,
    meta_cmd_timeout: float = 60.0  # to say what an address is,
    list_fetch_cmd_timeout: float = 120.0  # to list a collection; what did not fit is listed by the next command,
    download_cmd_timeout: float = 1800.0  # to download one item
    list_max_chunks: int = 200  # pages of 100 items that are listed of a collection
    ua_profiles: str = "desktop,mobile"  # that requests without a cookie take in turn
    yt_dlp_extractor_args: str = ""  # for --extractor-args, with spaces between several
    yt_dlp_plugin_dirs: str = ""  # folders with plugins of yt-dlp, with : between several
    yt_dlp_retries: int = 3  # of a request or a fragment, before the task itself fails and is tried again
    yt_dlp_sleep_requests: float = 0.5  # seconds between two pages of a site
    yt_dlp_turn_seconds: float = 60.0  # that a task waits for its turn before it makes room for others
    media_library: str = "library"  # the folder that downloads go to
    media_private_allow: str = ""  # networks that yt-dlp may ask besides public addresses
    cookie_failure_limit: int = 3  # failures in a row that disable a cookie

    def __post_init__(self) -> None:
        for name in (field.name for field in fields(self) if field.name.endswith("_timeout")):
            if not 0 < getattr(self, name) < math.inf:
                raise Invalid(f"{name.upper()} must be a number of seconds above 0")
        for name, least in {"list_max_chunks": 1, "cookie_failure_limit": 1, "yt_dlp_retries": 0}.items():
            if getattr(self, name) < least:
                raise Invalid(f"{name.upper()} must be at least {least}")
        if not 0 <= self.yt_dlp_sleep_requests < math.inf:
            raise Invalid("YT_DLP_SLEEP_REQUESTS must be a number of seconds of at least 0")
        if not 0 < self.yt_dlp_turn_seconds < math.inf:
            raise Invalid("YT_DLP_TURN_SECONDS must be a number of seconds above 0")
        if not self.profiles or any(profile not in PROFILES for profile in self.profiles):
            raise Invalid(f"UA_PROFILES must be a comma-separated list of: {', '.join(PROFILES)}")
        _ = self.allowed

    @property
    def allowed(self) -> Allowed:
        """Where yt-dlp may go."""
        return Allowed.parse(self.media_private_allow, "MEDIA_PRIVATE_ALLOW")

    @property
    def profiles(self) -> tuple[str, ...]:
        return tuple(filter(None, (name.strip() for name in self.ua_profiles.split(","))))
