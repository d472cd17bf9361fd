"""What is configured, from file, environment and flags."""

import difflib
import math
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from headgate.core.compensation import CompensationSettings
from headgate.core.errors import Invalid
from headgate.core.keys import SHORTEST_SERVER_SECRET
from headgate.core.limits import DeclaredLimits, MostNames, declared_in_settings, most_names
from headgate.core.shares import KEY_SHARE, TENANT_SHARE, ShareLimits, parse_share

PREFIX = "HEADGATE_"
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_BETWEEN_BROKERS = re.compile(r"\s*,\s*(?=amqps?://)")  # a comma in a password is not followed by that
MOST_CONSUMERS = 10
MOST_PREFETCH = 1000
LONGEST_HEARTBEAT = 65535  # seconds, as AMQP has it
BROKER_FILES = frozenset({"cafile", "capath", "certfile", "keyfile"})
TYPO_SIMILARITY = 0.9  # how similar a variable's name must be to a setting's to count as a typo


class Pooler(StrEnum):
    """What stands between us and PostgreSQL."""

    AUTO = "auto"  # found out at the first connection
    OFF = "off"  # nothing, or a pooler in session mode
    TRANSACTION = "transaction"  # a pooler that gives each transaction any of its connections


@dataclass(frozen=True, slots=True)
class Settings:
    """Every setting has a name in `headgate.toml` and, in capitals behind HEADGATE_, in the environment."""

    url: str = field(default="sqlite:///headgate.db", repr=False)  # there may be a password in it
    schema: str = ""  # of PostgreSQL, for our tables; without one the search_path decides
    pooler: Pooler = Pooler.AUTO
    # amqp://… of a RabbitMQ, or of each node of a cluster with commas between; without one workers claim from the store
    broker: str = field(default="", repr=False)
    broker_consumers: int = 5  # of each queue, in each worker
    broker_prefetch: int = 1  # messages that a consumer may hold unacknowledged; 0: its share of the slots
    broker_resend_seconds: float = 10.0  # after which a message that started nothing is sent again
    host: str = "127.0.0.1"
    port: int = 8000
    hosts: str = ""  # names, besides this machine's own, that an open server may be asked under
    trusted_proxies: str = ""  # networks of proxies that say whose request it is, with commas between
    connections: int = 5_000  # of clients at once; below the number of files that the process may open
    connections_per_address: int = 1_000  # and half of them at most
    head_seconds: float = 10.0  # in which the head of a request has to arrive
    body_seconds: float = 30.0  # and its body
    answer_seconds: float = 30.0  # after which a client that takes nothing of its answer is given up
    key_share: str = KEY_SHARE  # of a server, for each key; what is left out is as here, `none` is no limit
    tenant_share: str = TENANT_SHARE  # and for all keys of a tenant together
    tenant_names: str = ""  # lanes, rate keys and so on that a tenant's tasks may make up; empty: as `MostNames` has it
    secret: str = field(default="", repr=False)  # or several, newest first, with commas between
    packs: str = ""  # names of the packs that are on, with commas between
    lanes: str = ""  # how many tasks of a lane run at once: mail=5,media=none
    resources: str = ""  # how many tasks use a resource at once: gpu=1
    rate_limits: str = ""  # starts per second, and at once: key:openai=5/10
    callback_allow: str = ""  # networks that requests may go to besides public addresses
    tenant_callback_allow: str = ""  # and those that schedules which keys of one tenant set up may call
    callback_concurrency: int = 10  # requests at once to one receiver, from each process
    session_seconds: float = 7 * 86400.0  # how long a user stays signed in at the console at most
    session_idle_seconds: float = 8 * 3600.0  # and without doing anything there
    lease_seconds: float = 30.0
    beat_seconds: float = 10.0
    reap_seconds: float = 5.0
    poll_seconds: float = 2.0
    shutdown_seconds: float = 30.0
    stuck_seconds: float = 10.0  # how long a handler may run after it was told to stop before its worker is replaced
    mutex_seconds: float = 7200.0
    retention_succeeded_days: float = 7.0
    retention_failed_days: float = 30.0
    retention_hour: int = 2
    timezone: str = "UTC"
    compensation_base: float = 10.0
    compensation_step: float = 10.0
    compensation_max: float = 300.0
    compensation_threshold: float = 30.0
    compensation_start_interval: float = 5.0
    compensation_status_seconds: float = 60.0
    compensation_max_skips: int = 6

    def __post_init__(self) -> None:
        for setting in fields(self):
            if isinstance(value := getattr(self, setting.name), float) and not math.isfinite(value):
                raise Invalid(f"{setting.name} must be a finite number")
        if not 0 < self.beat_seconds < self.lease_seconds:
            raise Invalid("beat_seconds must be above 0 and below lease_seconds")
        for name in (
            "reap_seconds", "poll_seconds", "mutex_seconds", "session_seconds", "session_idle_seconds",
            "broker_resend_seconds", "head_seconds", "body_seconds", "answer_seconds", "callback_concurrency",
            "connections", "connections_per_address",
        ):  # fmt: skip
            if not getattr(self, name) > 0:
                raise Invalid(f"{name} must be above 0")
        for name in ("shutdown_seconds", "stuck_seconds", "retention_succeeded_days", "retention_failed_days"):
            if getattr(self, name) < 0:
                raise Invalid(f"{name} must be at least 0")
        if not 0 <= self.port < 65536:
            raise Invalid("port must be between 0 and 65535")
        check_schema(self.schema)
        check_broker(self.broker)
        if not 1 <= self.broker_consumers <= MOST_CONSUMERS:
            raise Invalid(f"broker_consumers must be between 1 and {MOST_CONSUMERS}")
        if not 0 <= self.broker_prefetch <= MOST_PREFETCH:
            raise Invalid(f"broker_prefetch must be between 0 and {MOST_PREFETCH}")
        if not self.host:
            raise Invalid("host must be an address or a name")
        if any(len(secret) < SHORTEST_SERVER_SECRET for secret in self.secrets):
            raise Invalid(f"secret needs at least {SHORTEST_SERVER_SECRET} characters; separate several with commas")
        if not 0 <= self.retention_hour < 24:
            raise Invalid("retention_hour must be between 0 and 23")
        self.compensation, self.limits, self.share_of_key, self.share_of_tenant, self.most_names  # noqa: B018 reading them checks them
        try:
            ZoneInfo(self.timezone)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise Invalid(f"timezone: no time zone {self.timezone!r}") from None

    @property
    def compensation(self) -> CompensationSettings:
        """What is set about start compensation."""
        return CompensationSettings(
            **{setting.name: getattr(self, f"compensation_{setting.name}") for setting in fields(CompensationSettings)}
        )

    @property
    def limits(self) -> DeclaredLimits:
        """The limits that are set here."""
        return declared_in_settings(self.lanes, self.resources, self.rate_limits)

    @property
    def share_of_key(self) -> ShareLimits:
        """How much of a server one key may use."""
        return parse_share("key_share", self.key_share, KEY_SHARE)

    @property
    def share_of_tenant(self) -> ShareLimits:
        """How much of a server one tenant may use."""
        return parse_share("tenant_share", self.tenant_share, TENANT_SHARE)

    @property
    def most_names(self) -> MostNames:
        """How many names the tasks of one tenant may make up."""
        return most_names("tenant_names", self.tenant_names)

    @property
    def secrets(self) -> tuple[str, ...]:
        """The server's secrets: what is new is sealed and signed with the first, what is old is still understood."""
        return _split(self.secret)

    @property
    def pack_names(self) -> tuple[str, ...]:
        """The packs that are on."""
        return _split(self.packs)


def _split(text: str) -> tuple[str, ...]:
    return tuple(filter(None, (part.strip() for part in text.split(","))))


def check_schema(name: str) -> None:
    """Raise `Invalid` unless it is a plain schema name, or ""."""
    if name and (not _SCHEMA.fullmatch(name) or name.startswith("pg_")):
        raise Invalid(
            f"schema {name!r}: use at most 63 of a-z, 0-9 and _, beginning with a letter or _, and not with pg_"
        )


def broker_urls(broker: str) -> list[str]:
    """The URL of each node that the setting names."""
    return _BETWEEN_BROKERS.split(broker) if broker else []


def check_broker(broker: str) -> None:
    """Raise `Invalid` unless it is the address of a broker, or "". A URL may hold a password and is not repeated."""
    if not all(map(_is_broker, broker_urls(broker))):
        raise Invalid(
            "broker: use amqp://USER:PASSWORD@HOST:PORT/VHOST, or amqps:// for TLS; for a cluster, "
            "give one URL for each node, separated by commas"
        )
    for url in broker_urls(broker):
        options = {name: values[-1] for name, values in parse_qs(urlsplit(url).query).items()}
        heartbeat = options.get("heartbeat", "0")
        if not heartbeat.isdecimal() or int(heartbeat) > LONGEST_HEARTBEAT:
            raise Invalid(f"broker: heartbeat must be a number of seconds from 0 to {LONGEST_HEARTBEAT}")
        for name in BROKER_FILES & options.keys():
            if not Path(options[name]).exists():
                raise Invalid(f"broker: there is no file {options[name]!r} ({name})")


def _is_broker(url: str) -> bool:
    try:
        parts = urlsplit(url)
        address = parts.hostname and (parts.port or 1) > 0
    except ValueError:  # a port that is no number
        return False
    return bool(address) and parts.scheme in ("amqp", "amqps") and "," not in f"{parts.hostname}{parts.path}"


NAMES = tuple(setting.name for setting in fields(Settings))


def load(
    flags: Mapping[str, Any] | None = None,
    *,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Settings:
    """`headgate.toml`, then `.env`, then the environment, then `flags`: the later one wins. None is no flag."""
    folder = folder or Path.cwd()
    found = _from_toml(folder / "headgate.toml")
    found |= _from_variables(_from_dotenv(folder / ".env"))
    found |= _from_variables(os.environ if environment is None else environment)
    found |= _check_known("flags", {name: value for name, value in (flags or {}).items() if value is not None})
    try:
        return msgspec.convert(found, Settings, strict=False)
    except msgspec.ValidationError as error:
        reason, _, name = str(error).rstrip("`").partition(" - at `$.")
        where = f"the setting {name} ({PREFIX}{name.upper()})" if name else "settings"
        raise Invalid(f"{where}: {reason}") from None


def variables() -> dict[str, str]:
    """The environment, over the `.env` of the folder we are in: where packs find their own settings."""
    return _from_dotenv(Path.cwd() / ".env") | dict(os.environ)


def _from_toml(path: Path) -> dict[str, Any]:
    try:
        found = tomllib.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Invalid(f"{path.name}: {error}") from None
    return _check_known(path.name, found)


def _check_known(where: str, found: dict[str, Any]) -> dict[str, Any]:
    for name in found:
        if name not in NAMES:
            near = difflib.get_close_matches(name, NAMES, 1)
            raise Invalid(f"{where}: no setting {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
    return found


def _from_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """The settings among environment variables. An empty one is none; a name too near to be chance is refused."""
    found = {key.removeprefix(PREFIX).lower(): key for key in variables if key.startswith(PREFIX) and variables[key]}
    for name, key in found.items():
        if name not in NAMES and (near := difflib.get_close_matches(name, NAMES, 1, TYPO_SIMILARITY)):
            raise Invalid(f"environment: no setting {key}; did you mean {PREFIX}{near[0].upper()}?")
    return {name: variables[key] for name, key in found.items() if name in NAMES}


def _from_dotenv(path: Path) -> dict[str, str]:
    try:
        lines = path.read_text().splitlines()
    except FileNotFoundError:
        return {}
    except UnicodeDecodeError as error:
        raise Invalid(f"{path.name}: {error}") from None
    pairs = (line.strip().removeprefix("export ").partition("=") for line in lines)
    return {name.strip(): _unquoted(value.strip()) for name, sign, value in pairs if sign and not name.startswith("#")}


def _unquoted(value: str) -> str:
    """A value of `.env`: as it stands between quotes, else up to a comment."""
    quote = value[:1]
    if quote in ("'", '"') and (end := value.find(quote, 1)) > 0:
        return value[1:end]
    return value.split(" #")[0].rstrip()
