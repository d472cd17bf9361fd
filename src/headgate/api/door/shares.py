"""What each key and each tenant uses of this server now, and how much it may use."""

import math
from collections import Counter
from typing import Literal

from headgate.api.door.principal import Principal
from headgate.api.problems import Rejected
from headgate.core.limits import next_token_at, take, tokens
from headgate.core.shares import ShareLimits
from headgate.environment import monotonic
from headgate.settings import Settings

Kind = Literal["requests", "polls", "streams"]
MOST_IDLE = 10_000
TASKS_A_TOKEN = 25  # of a bulk submit: what a request costs by itself
REFUSED_SECONDS = 0.5  # before a client that asks too much hears so: it could spend us by asking again at once
RETRY_SECONDS = 5  # for a long poll or a stream to end; a request ends sooner
WORDS = {"requests": "requests at once", "polls": "requests that wait", "streams": "streams"}


class ShareUsedUp(Rejected):
    """429: a key, or its tenant, uses all that it may."""

    def __init__(self, whose: str, what: str, seconds: float) -> None:
        super().__init__(429, f"too many {what} with this {whose}", {"Retry-After": str(max(1, math.ceil(seconds)))})


class Account:
    """What one key, or all keys of one tenant together, use now."""

    __slots__ = ("limits", "most", "tat", "threads", "used", "whose")

    def __init__(self, whose: Literal["key", "tenant"], limits: ShareLimits) -> None:
        self.whose = whose
        self.limits = limits
        self.most: dict[Kind, int | None] = {
            "requests": limits.requests, "polls": limits.polls, "streams": limits.streams
        }  # fmt: skip
        self.used: dict[Kind, int] = {"requests": 0, "polls": 0, "streams": 0}
        self.tat = 0.0  # of its bucket of requests
        self.threads = 0  # in the store; guarded by who hands them out

    @property
    def has_thread(self) -> bool:
        """Whether one more call of theirs may go to the store."""
        return self.limits.threads is None or self.threads < self.limits.threads

    def is_full(self, kind: Kind) -> bool:
        most = self.most[kind]
        return most is not None and self.used[kind] >= most

    def is_idle(self, now: float) -> bool:
        return self.tat <= now and not self.threads and not any(self.used.values())


class Shares:
    """Keeps the accounts. A caller that needs no key has none."""

    def __init__(self, settings: Settings, connections: int) -> None:
        """Of these connections, one tenant holds half at most for long polls, and a quarter for streams."""
        self._key = settings.share_of_key.at_most(connections // 2, connections // 4)
        self._tenant = settings.share_of_tenant.at_most(connections // 2, connections // 4)
        self._accounts: dict[tuple[str, int | None], Account] = {}
        self.refused: Counter[tuple[str, str]] = Counter()  # by whose share, and what of it, was used up

    def accounts(self, who: Principal) -> tuple[Account, ...]:
        """The key's own, and that of its tenant; keys of no tenant have one together."""
        if who.key_id is None:
            return ()
        return self._account("key", who.key_id, self._key), self._account("tenant", who.tenant_id, self._tenant)

    def _account(self, whose: Literal["key", "tenant"], number: int | None, limits: ShareLimits) -> Account:
        account = self._accounts.get((whose, number))
        if account is None:
            if len(self._accounts) >= MOST_IDLE:
                now = monotonic()
                self._accounts = {name: each for name, each in self._accounts.items() if not each.is_idle(now)}
            account = self._accounts[whose, number] = Account(whose, limits)
        return account

    def take_token(self, accounts: tuple[Account, ...]) -> None:
        """Count a request of theirs; `ShareUsedUp` if there were too many lately."""
        self._take(accounts, 1, "requests a second")

    def take_tokens_of_bulk(self, accounts: tuple[Account, ...], tasks: int) -> None:
        """Count what so many tasks of one request cost beside the request itself, which was counted when it came.

        More than a full bucket would have is taken from the seconds to come. `ShareUsedUp` if there is too little now.
        """
        if more := (tasks - 1) // TASKS_A_TOKEN:
            self._take(accounts, more, "tasks a second", counted=1)

    def _take(self, accounts: tuple[Account, ...], count: int, what: str, counted: int = 0) -> None:
        now = monotonic()
        for account in accounts:
            rate = account.limits.rate
            if rate is None:
                continue
            needed = min(count, rate.burst - counted)
            if tokens(rate, account.tat, now) < needed:
                self.refused[account.whose, "rate"] += 1
                again_at = next_token_at(rate, account.tat, now, needed + counted)
                raise ShareUsedUp(account.whose, what, again_at - now)
        for account in accounts:
            if account.limits.rate is not None:
                account.tat = take(account.limits.rate, account.tat, now, count)

    def begin(self, accounts: tuple[Account, ...], kind: Kind) -> None:
        """Count one more at once; `ShareUsedUp` if there are as many as there may be."""
        for account in accounts:
            if account.is_full(kind):
                self.refused[account.whose, kind] += 1
                raise ShareUsedUp(account.whose, WORDS[kind], 1 if kind == "requests" else RETRY_SECONDS)
        for account in accounts:
            account.used[kind] += 1

    def end(self, accounts: tuple[Account, ...], kind: Kind) -> None:
        for account in accounts:
            account.used[kind] -= 1
