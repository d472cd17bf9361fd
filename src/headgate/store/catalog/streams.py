"""Streams: the tasks that meet the same gates, so that each gate is judged once for all of them."""

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from headgate.core.errors import Refused
from headgate.core.limits import MostNames, bucket_of
from headgate.core.pause import PauseKey, keys_of
from headgate.core.task import NewTask
from headgate.store.catalog.lanes import ADD_LANE
from headgate.store.catalog.version import bump
from headgate.store.db.statement import Db, Statement

StreamKey = tuple[int, str, str, str, str, str]

ADD_BUCKET = Statement(
    """
    INSERT INTO headgate_rate_limit (name, rate, burst, lifted, tenant_id)
    SELECT CAST(:name AS text), rate, burst, lifted, CAST(:tenant_id AS bigint)
      FROM headgate_rate_limit WHERE name = 'key:*'
    ON CONFLICT (name) DO NOTHING
    """
)
ADD_STREAM = Statement(
    """
    INSERT INTO headgate_stream (tenant_id, lane, type, category, rate_key, agent_id, digest)
    VALUES (:tenant_id, :lane, :type, :category, :rate_key, :agent_id, :digest) ON CONFLICT (digest) DO NOTHING
    """
)

COUNT_STREAMS = Statement(
    "SELECT tenant_id, count(*) FROM headgate_stream WHERE tenant_id {in tenants} GROUP BY tenant_id"
)
STREAM = Statement("SELECT id FROM headgate_stream WHERE digest = :digest")


@dataclass(frozen=True, slots=True)
class Stream:
    """Tasks that meet the same gates; whether it may start something is judged once for all of them."""

    id: int
    tenant_id: int
    lane: str
    type: str
    category: str
    rate_key: str
    agent_id: str

    @property
    def key(self) -> StreamKey:
        return (self.tenant_id, self.lane, self.type, self.category, self.rate_key, self.agent_id)

    @property
    def pause_keys(self) -> tuple[PauseKey, ...]:
        """The pauses that would hold it."""
        return keys_of(self.tenant_id, self.lane, self.type, self.rate_key)


def pairs_of(streams: Mapping[int, Stream]) -> list[tuple[str, str]]:
    """Every lane and type that an unassigned task had, the oldest first: an order that only ever grows."""
    return [(stream.lane, stream.type) for _, stream in sorted(streams.items()) if not stream.agent_id]


def stream_key(new: NewTask) -> StreamKey:
    """Which stream a new task belongs to, once it has what it leaves to its type."""
    assert new.lane is not None
    assert new.category is not None
    return (new.tenant_id, new.lane, new.type, new.category, new.rate_key or "", new.agent_id or "")


def digest_of(key: StreamKey) -> str:
    """The unique name of a stream in the database."""
    return hashlib.sha256(json.dumps(key).encode()).hexdigest()


def add_streams(db: Db, keys: Collection[StreamKey], most_names: MostNames | None = None) -> None:
    """Make streams, and the lanes and buckets they need, unless they are there.

    `Refused` if one of the tenants then has more than `most_names`.
    """
    bump(db)  # first: one after the other, so that ids are committed in their order and none is passed over
    for key in keys:
        _add_stream(db, key)
    if most_names is not None:
        _check_count(db, {key[0] for key in keys}, most_names)


def _check_count(db: Db, tenants: Collection[int], most_names: MostNames) -> None:
    limits = {tenant_id: most for tenant_id in tenants if (most := most_names.of(tenant_id)) is not None}
    for tenant_id, count in db.rows(COUNT_STREAMS, tenants=sorted(limits)) if limits else ():
        if count > limits[tenant_id]:
            raise Refused.of("too-many-streams", tenant_id=tenant_id, most=limits[tenant_id])


def _add_stream(db: Db, key: StreamKey) -> None:
    tenant_id, lane, type_code, category, rate_key, agent_id = key
    db.send(ADD_LANE, name=lane)
    if rate_key:
        db.send(ADD_BUCKET, name=bucket_of(tenant_id, rate_key), tenant_id=tenant_id)
    db.send(
        ADD_STREAM,
        tenant_id=tenant_id, lane=lane, type=type_code, category=category, rate_key=rate_key, agent_id=agent_id,
        digest=digest_of(key),
    )  # fmt: skip
