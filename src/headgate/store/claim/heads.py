"""The heads of the streams on PostgreSQL: read a few at a time, from where each stream was left."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from headgate.core.choice import Candidate, Choice
from headgate.store.catalog.catalog import Catalog
from headgate.store.catalog.streams import Stream
from headgate.store.claim.contract import FIRST, ClaimRequest, ask_again, candidate_of, first_share
from headgate.store.claim.cursors import Cursors, StreamCursor
from headgate.store.claim.limits import Limits
from headgate.store.db.statement import Db, PendingRows, Statement


def _heads(condition: str, lock: str) -> Statement:
    return Statement(
        postgres=f"""
        SELECT h.priority, h.id, h.stream_id, h.mutex
          FROM unnest(:streams::bigint[], :priorities::bigint[], :ids::bigint[], :shares::bigint[])
               AS s(stream_id, priority, id, share)
          CROSS JOIN LATERAL (
               SELECT t.priority, t.id, t.stream_id, t.mutex FROM headgate_task t
                WHERE {condition} AND (t.priority, t.id) > (s.priority, s.id)
                ORDER BY t.priority, t.id LIMIT s.share {lock}) h
        """
    )


# While a limit is locked no other claim reads behind it: its heads need no locks, and no lock is written in vain.
_QUEUED = "t.status = 'queued' AND t.stream_id = s.stream_id"
_LOCKED = "FOR NO KEY UPDATE SKIP LOCKED"
_HEADS = {
    (kind, locked): _heads(condition, _LOCKED if locked else "")
    for kind, condition in {
        "any": _QUEUED,
        "creator": f"{_QUEUED} AND t.creator <> 0 AND t.creator = :creator",
        "nobody": f"{_QUEUED} AND t.creator = 0",
        # By the primary key: neither the state, as a parameter, nor the stream leads to an index of waiting tasks.
        "ids": "t.id = ANY(:wanted::bigint[]) AND t.status = :queued AND t.stream_id + 0 = s.stream_id",
    }.items()
    for locked in (True, False)
}


def held_up(catalog: Catalog, request: ClaimRequest, cursors: Cursors) -> list[float]:
    """For how many seconds the agent's streams are not visited because its start queue lets nothing out."""
    now = cursors.monotonic()
    with cursors.lock:
        seen = [cursors.by_stream.get(stream.id) for stream in cursors.served(catalog, request) if stream.agent_id]
    return [cursor.shut_until - now for cursor in seen if cursor is not None and cursor.shut_until > now]


@dataclass(slots=True)
class Heads:
    """One claim's reading of its streams."""

    db: Db
    catalog: Catalog
    request: ClaimRequest
    cursors: Cursors
    limits: Limits
    candidates: list[Candidate] = field(default_factory=list)
    _floors: dict[int, tuple[int, int]] = field(default_factory=dict)
    _marks: dict[int, int] = field(default_factory=dict)  # how often each stream had been woken when it was read
    _wanted: list[tuple[dict[int, int], PendingRows]] = field(default_factory=list)

    def ask_free(self, streams: Sequence[Stream]) -> None:
        """Ask for the heads of streams that no limit guards; they are locked as they are read."""
        for stream in streams:
            cursor = self.cursors.by_stream.get(stream.id) or StreamCursor()
            # A cursor covers the tasks of all; a request for only some of them reads from the start.
            self._floors[stream.id] = FIRST if self.request.skips_some else cursor.floor
            self._marks[stream.id] = cursor.woken
        free = [stream.id for stream in streams if not self.limits.guards(stream, self.catalog)]
        share = first_share(self.request.limit, len(streams))
        self._ask(dict.fromkeys(free, share), locked=True)

    def read(self, streams: Sequence[Stream]) -> None:
        """Take in what was asked for of these streams, ask the guarded ones that have room, and again where it may
        matter."""
        wanted = {stream.id for stream in streams}
        self._wanted = [
            ({stream_id: share for stream_id, share in shares.items() if stream_id in wanted}, answer)
            for shares, answer in self._wanted
        ]
        share = first_share(self.request.limit, len(streams))
        guarded = {
            stream.id: self.limits.room_of(stream, self.catalog, share)
            for stream in streams
            if self.limits.guards(stream, self.catalog)
        }
        self._ask({stream_id: room for stream_id, room in guarded.items() if room}, locked=False)
        while self._wanted:
            unread, bare = self._take_in()
            if bare and self.request.creator is None:
                self._look_twice(bare)
            again = ask_again(
                self.catalog,
                self.candidates,
                unread,
                self.limits.room,
                self.limits.asked,
                self.request.limit,
                self.cursors.turns,
            )
            self._floors |= {stream_id: unread[stream_id] for stream_id in again}
            share = first_share(self.request.limit, len(again))
            streams_again = [self.catalog.streams[stream_id] for stream_id in again]
            for locked in (True, False):
                group = [s.id for s in streams_again if self.limits.guards(s, self.catalog) is not locked]
                self._ask(dict.fromkeys(group, share), locked=locked)

    def _ask(self, shares: dict[int, int], *, locked: bool) -> None:
        if shares:
            self._wanted.append((shares, self._send(shares, locked=locked)))

    def _send(self, shares: dict[int, int], *, locked: bool) -> PendingRows:
        kind = {None: "any", 0: "nobody"}.get(self.request.creator, "creator")
        if self.request.ids is not None:
            kind = "ids"
        floors = [self._floors[stream_id] for stream_id in shares]
        return self.db.send(
            _HEADS[kind, locked],
            streams=list(shares),
            priorities=[floor[0] for floor in floors],
            ids=[floor[1] for floor in floors],
            shares=list(shares.values()),
            creator=self.request.creator,
            wanted=sorted(self.request.ids or ()),
            queued="queued",
        )

    def _take_in(self) -> tuple[dict[int, tuple[int, int]], list[int]]:
        """Where each stream was read to that may have more, and the streams in which nothing was found."""
        unread: dict[int, tuple[int, int]] = {}
        bare: list[int] = []
        for shares, answer in self._wanted:
            counts = dict.fromkeys(shares, 0)
            for row in answer.rows():
                if row[2] not in counts:  # it is paused
                    continue
                self.candidates.append(candidate_of(row, self.catalog))
                counts[row[2]] += 1
                unread[row[2]] = max(unread.get(row[2], FIRST), (row[0], row[1]))
            for stream_id, share in shares.items():
                if counts[stream_id] < share:
                    unread.pop(stream_id, None)
                if not counts[stream_id]:
                    bare.append(stream_id)
        self._wanted = []
        seen = {candidate.stream_id for candidate in self.candidates}  # streams that had heads before are not empty
        return unread, [stream_id for stream_id in bare if stream_id not in seen]

    def _look_twice(self, bare: list[int]) -> None:
        """Tell an empty stream from one whose heads other claims have locked."""
        hidden = {row[2] for row in self._send(dict.fromkeys(bare, 1), locked=False).rows()}
        self.limits.busy = self.limits.busy or bool(hidden)
        if self.request.skips_some:
            return
        with self.cursors.lock:
            for stream_id in set(bare) - hidden:
                cursor = self.cursors.by_stream.get(stream_id)
                if cursor is not None and cursor.woken == self._marks[stream_id]:
                    cursor.empty = True

    def remember(self, choice: Choice, streams: Sequence[Stream]) -> None:
        """Keep how far each stream is read, up to the first head that was left, and which are shut for a while."""
        if self.request.skips_some:
            return
        chosen = set(choice.chosen)
        floors: dict[int, tuple[int, int]] = {}
        left: set[int] = set()
        for candidate in sorted(self.candidates):
            if candidate not in chosen:
                left.add(candidate.stream_id)
            if candidate.stream_id not in left:
                floors[candidate.stream_id] = (candidate.priority, candidate.id)
        shut, now = self.limits.shut_for(choice), self.cursors.monotonic()
        if shut:
            self.cursors.shut_for(shut)
        with self.cursors.lock:
            for stream_id, floor in floors.items():
                cursor = self.cursors.by_stream.get(stream_id)
                if cursor is not None and cursor.woken == self._marks[stream_id]:
                    cursor.floor = floor
            for stream in streams:
                waits = [shut[gate] for gate in self.catalog.gates(stream) if gate in shut]
                if waits and stream.id in self.cursors.by_stream:
                    self.cursors.by_stream[stream.id].shut_until = now + max(waits)
