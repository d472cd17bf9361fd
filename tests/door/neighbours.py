"""Two tenants on a real server. Every name that the second makes up, and what operators say of it, is a canary."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from headgate.api.app import routes_of
from headgate.api.door.gatekeeper import ALWAYS_OPEN
from headgate.api.routing import Route, bare
from headgate.core.keys import Role
from headgate.core.limits import Rate
from headgate.core.machine import Raised
from headgate.core.pause import PauseScope
from headgate.core.task import TaskType
from headgate.pack import find_packs
from headgate.store.claim.contract import ClaimRequest, Outcome
from headgate.store.store import Store, open_store
from tests.api.serving import serving

MINE, THEIRS, NOBODY = 1, 2, 3
ABSENT = 10**9
WORDS = {MINE: "mine", THEIRS: "canary"}
CANARY = re.compile(r"canary-[a-z-]*[a-z]")
SECRET = "a-secret-of-this-server"  # noqa: S105
ROUTES = [route for route in routes_of(find_packs(["media"])) if route.path not in ALWAYS_OPEN]
STREAMS = ("/api/events", "/api/requests/events")
LOOKS = [route for route in ROUTES if route.method == "GET" and route.path not in STREAMS]
TYPES = (
    TaskType("plain"),
    TaskType("manual", need_manual=True),
    TaskType("called", callback={"error": {"url": "http://127.0.0.1:1/", "method": "POST"}}),
)
# What a route cannot do without.
NEEDED = {
    "/api/periodic-tasks/preview": "?cron_expressions=@daily",
    "/api/requests/busy": "?subscription_id=1",
}
# What nobody reads anywhere: it is sealed, hashed, or only told to the agent itself.
NEVER_SHOWN = {"canary-cookie-value", "canary-idempotency", "canary-claim-id", "canary-checkpoint"}


class Neighbours:
    """A server, keys of every role and tenant, and what each tenant has."""

    def __init__(self, address: str, store: Store) -> None:
        self.store = store
        self.client = httpx.Client(base_url=address, timeout=60)
        self.said: set[str] = set()
        self.keys = {
            (role, tenant): store.keys.add(f"{word}-key-{role.word}", role, tenant_id=tenant)[1]
            for tenant, word in ((None, "operator"), *WORDS.items())
            for role in Role
        }
        self.things: dict[int, dict[str, Any]] = {}

    def word(self, tenant: int, what: str) -> str:
        """A name that a tenant makes up."""
        word = f"{WORDS[tenant]}-{what}"
        self.said.add(word)
        return word

    def ask(self, method: str, path: str, role: Role, tenant: int | None, body: Any = None, **more: Any) -> Any:
        headers = {"Authorization": f"Bearer {self.keys[role, tenant]}"} | more.pop("headers", {})
        return self.client.request(method, path, headers=headers, **({} if body is None else {"json": body}), **more)

    def do(self, method: str, path: str, tenant: int | None, body: Any = None, **more: Any) -> Any:
        answer = self.ask(method, path, Role.ADMIN, tenant, body, **more)
        assert answer.status_code < 300, answer.text
        return answer.json()

    # what they have

    def move_in(self, tenant: int) -> None:
        """Give a tenant one of everything, each under a name of its own."""
        things = self.things[tenant] = self._tasks(tenant)
        things |= self._other_things(tenant)
        things["resource"] = self._hold_resource(tenant)

    def _tasks(self, tenant: int) -> dict[str, Any]:
        def word(what: str) -> str:
            return self.word(tenant, what)

        task = {
            "type": "manual", "ext": {"secret": word("ext")}, "name": word("name"), "category": word("category"),
            "lane": word("lane"), "mutex": word("mutex"), "rate_key": word("rate-key"),
            "unique_key": word("unique-key"), "correlation_id": word("correlation"),
        }  # fmt: skip
        made = self.do("POST", "/api/tasks", tenant, task, headers={"Idempotency-Key": word("idempotency")})
        agent = word("agent")
        claim = {"limit": 1, "wait_seconds": 0, "instance": word("instance"), "claim_id": word("claim-id")}
        [held] = self.do("POST", f"/api/agents/{agent}/claim", tenant, claim)["tasks"]
        assert held["id"] == made["id"]
        reports: dict[str, dict[str, Any]] = {
            "progress": {"done": 1, "note": word("note")},
            "log": {"lines": [{"level": "info", "message": word("line")}]},
            "checkpoint": {"name": word("checkpoint"), "state": {}},
            "fail": {"error_info": word("error"), "retryable": False},
        }
        for report, body in reports.items():
            path = f"/api/agents/{agent}/tasks/{held['id']}/{report}"
            self.do("POST", path, tenant, {"exec_id": held["exec_id"]} | body)
        self.do("POST", "/api/tasks", tenant, {"type": "plain", "agent_id": word("assigned")})
        cancelled = self.do("POST", "/api/tasks", tenant, task | {"unique_key": None})
        self.do("POST", f"/api/tasks/{cancelled['id']}/cancel", tenant, {"reason": word("cancel-reason")})
        waiting = self.do("POST", "/api/tasks", tenant, task | {"unique_key": None})
        return {"task_id": made["id"], "waiting": waiting["id"], "agent_id": agent} | {
            "lane": task["lane"], "rate_key": task["rate_key"],
        }  # fmt: skip

    def _other_things(self, tenant: int) -> dict[str, Any]:
        def word(what: str) -> str:
            return self.word(tenant, what)

        schedule = {
            "type": "plain", "cron_expressions": "0 0 1 1 *", "ext": {"secret": word("schedule-ext")},
            "http": {"url": f"http://{word('host')}.example/{word('path')}"}, "category": word("schedule-category"),
        }  # fmt: skip
        periodic = self.do("POST", "/api/periodic-tasks", tenant, schedule)
        wanted = {"name": word("subscription"), "url": f"https://{word('site')}.example/list"}
        subscription = self.do("POST", "/api/subscriptions", tenant, wanted)
        self.do("POST", f"/api/subscriptions/{subscription['id']}/refresh-list", tenant)
        site = f"{word('cookie')}.example"
        self.do("PUT", f"/api/cookies/{site}", tenant, {"content": f"session={word('cookie-value')}"})
        key = self.do("POST", "/api/keys", tenant, {"name": word("new-key"), "role": "read"})
        return {
            "periodic_id": periodic["id"], "subscription_id": subscription["id"], "site": site, "key_id": key["id"],
        }  # fmt: skip

    def _hold_resource(self, tenant: int) -> str:
        """A worker of all tenants runs two of its tasks: one holds a resource, the other fails with a callback."""
        worker = self.store.workers.register(self.word(tenant, "worker"), types=["called"], lease_seconds=3600)
        for name in ("holder", "told"):
            self.do("POST", "/api/tasks", tenant, {"type": "called", "name": self.word(tenant, name)})
        holder, told = self.store.claims.take(ClaimRequest(worker, 2, tenant_id=tenant)).executions
        resource = self.word(tenant, "resource")
        self.store.holds.take(holder.id, holder.exec_id, resource)
        self.store.executions.settle([Outcome(told, Raised(self.word(tenant, "callback-error")))])
        return resource

    def operate(self) -> None:
        """Let an operator limit and pause what tenants named: that makes their names nobody else's."""
        for tenant in WORDS:
            lane, key = self.word(tenant, "lane"), self.word(tenant, "rate-key")
            self.store.lanes.set_capacity(lane, 3)
            self.store.rate_limits.set(f"lane:{lane}", Rate(5, 5))
            self.store.rate_limits.set(f"key:{key}", Rate(5, 5))
            self.store.pauses.set(PauseScope.LANE, lane, reason=self.word(tenant, "pause-of-lane"))
            self.store.pauses.set(PauseScope.KEY, key, reason=self.word(tenant, "pause-of-key"))
            self.store.pauses.set(PauseScope.TENANT, str(tenant), reason=self.word(tenant, "pause-of-tenant"))
        names = {name: thing for name, thing in self.things[THEIRS].items() if isinstance(thing, str)}
        self.things[NOBODY] = dict.fromkeys(self.things[THEIRS], ABSENT)
        self.things[NOBODY] |= {name: thing.replace("canary", "nobody") for name, thing in names.items()}

    # what they are told

    def sweep(
        self, role: Role, tenant: int | None, *, of: int = MINE, queries: bool = False
    ) -> Iterator[tuple[str, Any]]:
        """Every route that only looks, asked about the things of a tenant: each request, and its answer."""
        for route in LOOKS:
            plain = NEEDED.get(route.path, "")
            for query in (plain, *(filters(route) if queries else ())):
                path = self.path(route, of) + query
                answer = self.ask("GET", path, role, tenant)
                assert answer.status_code < 500, answer.text
                yield f"GET {path}", answer

    def path(self, route: Route, of: int) -> str:
        """A route's path, naming the things of a tenant."""
        return re.sub(r"\{(\w+)\}", lambda found: str(self.thing(route, found[1], of)), route.path)

    def thing(self, route: Route, parameter: str, of: int) -> Any:
        """What a parameter of a path names. One that is not known here is to be added, with a thing of each tenant."""
        things = self.things[of]
        match parameter:
            case "code":
                return "plain"
            case "tenant_id":
                return of
            case "request_id":
                return things["task_id"]
            case "name":
                named = {"lanes": "lane", "resources": "resource", "rate-limits": "rate_key", "listeners": "lane"}
                noun = route.path.split("/")[2]
                return ("key:" if noun == "rate-limits" else "") + things[named[noun]]
        return things[parameter]

    def streamed(self, path: str, role: Role, tenant: int | None, last: str) -> str:
        """What a stream tells from its beginning up to these words."""
        headers = {"Authorization": f"Bearer {self.keys[role, tenant]}"}
        told = ""
        with self.client.stream("GET", f"{path}?cursor=0", headers=headers) as answer:
            assert answer.status_code == 200
            for part in answer.iter_text():
                told += part
                if last in told:
                    return told
        raise AssertionError(f"the stream ended: {told}")


def filters(route: Route) -> Iterator[str]:
    """A query for each text that a route may be given: a word of tenant 2."""
    for parameter in route.parameters:
        if parameter.place == "query" and bare(parameter.type) is str and not parameter.required:
            yield f"?{parameter.name}=canary-{parameter.name.removesuffix('_id')}"


@contextmanager
def neighbours(url: str) -> Iterator[Neighbours]:
    """The two tenants, on a server over the store at `url`."""
    with open_store(url) as store, serving(url, packs="media", secret=SECRET) as served:
        for kind in TYPES:
            store.types.put(kind)
        found = Neighbours(served.address, store)
        with found.client:
            for tenant in (THEIRS, MINE):
                found.move_in(tenant)
            found.operate()
            yield found
