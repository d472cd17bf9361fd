"""Callbacks over real HTTP: what arrives, when again, who is held up by whom. Receivers are real, on loopback."""

import asyncio
import hashlib
import hmac
import json
from collections import Counter
from contextlib import asynccontextmanager

import pytest
from standardwebhooks import Webhook

from headgate.core.callbacks import CallbackKind
from headgate.core.errors import Unavailable
from headgate.core.machine import Raised, Returned
from headgate.core.states import State
from headgate.core.task import NewTask, TaskType
from headgate.duties import Callbacks
from headgate.outward.callback import sealed_callback
from headgate.outward.sealing import Seals
from headgate.settings import Settings
from headgate.store.callbacks.report import DeliveryFilter
from headgate.store.claim.contract import ClaimRequest, Outcome
from headgate.threads import inline
from tests.duties.turns import changed
from tests.factories import running, settle
from tests.outward.receiver import SOON, Receiver, receiving

SECRET = "what the server keeps to itself"  # noqa: S105
SK = "whsec_" + "c2VjcmV0" * 5
SETTINGS = Settings(secret=SECRET, callback_allow="127.0.0.0/8", callback_concurrency=4)
AKSK = {"type": "aksk", "ak": "us", "sk": SK}


def sender(store, settings=SETTINGS, **more):
    return changed(Callbacks(store, settings, inline), **more)


def tell(store, code, success=None, error=None, security=None, **more):
    """A type that tells these receivers."""
    parts = {"success": success and {"url": success.url}, "error": error and {"url": error.url}, "security": security}
    callback = sealed_callback({key: value for key, value in parts.items() if value}, code, Seals([SECRET]))
    store.types.put(TaskType(code, callback=callback, **more))


def succeed(store, code, count=1, result='"done"'):
    for _ in range(count):
        store.tasks.submit(NewTask(code, ext='{"a": 1}'))
    ended = store.claims.take(ClaimRequest(store.workers.register("tester"), count, types=frozenset({code}))).executions
    store.executions.settle([Outcome(execution, Returned(result)) for execution in ended])
    return [execution.id for execution in ended]


async def over(duty):
    """Turn until nothing is due and nothing is under way."""
    async with asyncio.timeout(SOON):
        while await duty.turn() or duty._sending:
            if duty._sending:
                await asyncio.wait(list(duty._sending), return_when=asyncio.FIRST_COMPLETED)


def test_a_success_arrives_in_bs_words_and_ends_notifying(store):
    """Spec: B6"""

    async def story():
        receiver = Receiver()
        async with receiving(receiver):
            tell(store, "told", receiver)
            [task_id] = succeed(store, "told", result='{"n": 1.50}')
            assert store.tasks.get(task_id).status is State.NOTIFYING
            await over(sender(store))
        [got] = receiver.got
        assert (got.method, got.path, got.body) == ("POST", "/told", b'{"ext":{"a": 1},"result":{"n": 1.50}}')
        assert got.headers["content-type"] == "application/json"
        assert got.headers["webhook-id"] == store.deliveries.of_task(task_id)[0].webhook_id
        assert not {"authorization", "webhook-signature"} & got.headers.keys()
        assert store.tasks.get(task_id).status is State.SUCCEEDED

    asyncio.run(story())


def test_tenants_take_turns_for_places_that_become_free_one_by_one(store):
    """Spec: X12, B6"""

    async def story():
        receiver = Receiver()
        async with receiving(receiver):
            tell(store, "told", receiver)
            for tenant_id in (1, 1, 1, 1, 2, 3):
                ext = json.dumps({"tenant": tenant_id})
                settle(store, running(store, "told", ext=ext, tenant_id=tenant_id), Returned())
            await over(sender(store, Settings(callback_allow="127.0.0.0/8", callback_concurrency=1)))
        assert [json.loads(got.body)["ext"]["tenant"] for got in receiver.got] == [1, 2, 3, 1, 1, 1]

    asyncio.run(story())


@pytest.mark.parametrize("need_manual", [False, True])
def test_a_failure_is_told_once_and_stays_what_it_is(store, need_manual):
    """Spec: B6"""

    async def story():
        receiver = Receiver()
        async with receiving(receiver):
            tell(store, "told", error=receiver, need_manual=need_manual)
            execution = running(store, "told", ext='{"a": 1}')
            state = settle(store, execution, Raised("no luck"))
            await over(sender(store))
            if need_manual:
                store.tasks.discard(execution.id)
                state = State.FAILED
            await over(sender(store))
        [got] = receiver.got
        assert json.loads(got.body) == {"task_id": execution.id, "error_info": "no luck", "ext": {"a": 1}}
        assert store.tasks.get(execution.id).status is state

    asyncio.run(story())


def test_it_is_put_where_the_type_says_put(store):
    """Spec: B6"""

    async def story():
        receiver = Receiver()
        async with receiving(receiver):
            callback = {"success": {"url": receiver.url + "/x?b=2&a=1", "method": "PUT"}}
            store.types.put(TaskType("told", callback=callback))
            succeed(store, "told")
            await over(sender(store))
        assert [(got.method, got.path) for got in receiver.got] == [("PUT", "/told/x?b=2&a=1")]

    asyncio.run(story())


def test_it_is_signed_as_the_standard_and_as_our_own_api_would_have_it(store):
    """The first is verified by the standard's own library, the second line by line. Spec: B6, RELIABILITY T24"""

    async def story():
        receiver = Receiver()
        async with receiving(receiver):
            tell(store, "told", receiver, security=AKSK)
            succeed(store, "told")
            await over(sender(store))
        [got] = receiver.got
        assert SK not in str(got)
        scheme, _, rest = got.headers["authorization"].partition(" ")
        authorization = dict(part.strip().split("=") for part in rest.split(","))
        lines = [
            scheme, "POST", "/told", "", receiver.host, hashlib.sha256(got.body).hexdigest(),
            authorization["timestamp"], authorization["nonce"],
        ]  # fmt: skip
        assert scheme == "HEADGATE-HMAC-SHA256"
        assert authorization["access_key"] == "us"
        assert authorization["signature"] == hmac.new(SK.encode(), "\n".join(lines).encode(), "sha256").hexdigest()
        return got

    got = asyncio.run(story())
    at = store.deliveries.find(DeliveryFilter()).items[0].created_at
    assert int(got.headers["webhook-timestamp"]) == int(at.timestamp())  # by the store's clock
    verifier = Webhook(SK)
    signature = verifier.sign(got.headers["webhook-id"], at, got.body.decode())
    assert got.headers["webhook-signature"] == signature


def test_a_receiver_that_fails_is_told_again_under_the_same_id_until_it_has_it(store, clock):
    """Spec: B6"""

    async def story():
        redirect = b"HTTP/1.1 302 There\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n"
        receiver = Receiver(500, redirect, 404, b"not even HTTP\r\n\r\n", 200)
        async with receiving(receiver):
            tell(store, "told", receiver, security=AKSK)
            [task_id] = succeed(store, "told")
            duty = sender(store)
            for attempt in range(1, 5):
                await over(duty)
                assert (len(receiver.got), store.tasks.get(task_id).status) == (attempt, State.NOTIFYING)
                await over(duty)  # not before its time
                assert len(receiver.got) == attempt
                clock.advance(5 * 2**attempt)
            await over(duty)
        assert store.tasks.get(task_id).status is State.SUCCEEDED
        assert len({got.headers["webhook-id"] for got in receiver.got}) == 1
        assert len({got.body for got in receiver.got}) == 1
        assert len({got.headers["webhook-timestamp"] for got in receiver.got}) == 5
        [sent] = store.deliveries.of_task(task_id)
        assert [attempt.status for attempt in sent.tries] == [200, None, 404, 302, 500]
        assert sent.tries[3].error == "redirects are not followed"

    asyncio.run(story())


def test_gone_ends_it_and_a_person_ends_the_rest(store):
    """Spec: B6, B7"""

    async def story():
        receiver = Receiver(410, 410)
        async with receiving(receiver):
            tell(store, "told", receiver)
            first, second = succeed(store, "told", 2)
            duty = sender(store)
            await over(duty)
            assert [sent.status for sent in store.deliveries.find(DeliveryFilter()).items] == ["undeliverable"] * 2
            assert store.tasks.get(first).status is State.NOTIFYING
            store.deliveries.redeliver(first)
            await over(duty)
            assert store.tasks.get(first).status is State.SUCCEEDED
            assert store.tasks.resolve(second, "told by telephone").status is State.RESOLVED
            await over(duty)
        assert len(receiver.got) == 3

    asyncio.run(story())


def test_a_receiver_that_asks_for_time_gets_it(store, clock):
    """Spec: B6"""

    async def story():
        receiver = Receiver(b"HTTP/1.1 503 Later\r\nretry-after: 600\r\ncontent-length: 0\r\n\r\n")
        async with receiving(receiver):
            tell(store, "told", receiver)
            succeed(store, "told")
            duty = sender(store)
            await over(duty)
            clock.advance(599)
            await over(duty)
            assert len(receiver.got) == 1
            clock.advance(1)
            await over(duty)
            assert len(receiver.got) == 2

    asyncio.run(story())


def test_a_receiver_that_hangs_holds_up_no_other_and_has_no_more_than_its_share(store):
    """Spec: B6"""

    async def story():
        hanging, well = Receiver(*[None] * 30), Receiver()
        async with receiving(hanging, well):
            tell(store, "hanging", hanging)
            tell(store, "well", well)
            succeed(store, "hanging", 20)
            duty = sender(store)
            await duty.turn()
            await hanging.has(SETTINGS.callback_concurrency)
            ids = succeed(store, "well", 20)
            async with asyncio.timeout(SOON):
                while any(store.tasks.get(task_id).status is State.NOTIFYING for task_id in ids):
                    await duty.turn()
                    await asyncio.sleep(0)
            assert len(hanging.got) == SETTINGS.callback_concurrency
            for sending in list(duty._sending):
                sending.cancel()
        assert (len(well.got), well.most_at_once <= SETTINGS.callback_concurrency) == (20, True)

    asyncio.run(story())


def test_types_that_share_a_receiver_share_its_places(store):
    """Spec: B6"""

    async def story():
        receiver = Receiver(*[None] * 30)
        async with receiving(receiver):
            for code in ("busy", "quiet"):
                tell(store, code, receiver)
            succeed(store, "busy", 20)
            succeed(store, "quiet", 1)
            duty = sender(store)
            await duty.turn()
            assert {leased.type for leased in duty._sending.values()} == {"busy", "quiet"}
            for sending in list(duty._sending):
                sending.cancel()

    asyncio.run(story())


def test_a_receiver_in_trouble_is_left_alone_and_nothing_is_used_up_meanwhile(store):
    """Spec: B6"""

    async def story():
        now = 1000.0
        receiver = Receiver(*[500] * 9)
        async with receiving(receiver):
            tell(store, "told", receiver)
            succeed(store, "told", 12)
            duty = sender(store, monotonic=lambda: now)
            await over(duty)
            assert len(receiver.got) == 8  # five in a row, and what was under way with them
            assert Counter(sent.attempts for sent in store.deliveries.find(DeliveryFilter()).items) == {1: 8, 0: 4}
            assert 0 < duty._next_pause() <= SETTINGS.poll_seconds * 1.1
            now += 5
            await over(duty)
            assert len(receiver.got) == 9  # one finds out that it is not well yet
            now += 10
            await over(duty)
        assert Counter(sent.status for sent in store.deliveries.find(DeliveryFilter()).items) == {
            "pending": 9,
            "delivered": 3,
        }

    asyncio.run(story())


def test_an_edit_of_the_type_holds_for_what_is_owed_already(store):
    """Spec: B5, B6"""

    async def story():
        wrong, right = Receiver(500), Receiver()
        async with receiving(wrong, right):
            tell(store, "told", wrong)
            [first, second] = succeed(store, "told", 2)
            await over(sender(store))
            tell(store, "told", right)
            for task_id in (first, second):
                if store.tasks.get(task_id).status is State.NOTIFYING:
                    store.deliveries.redeliver(task_id)
            await over(sender(store))
            assert len(right.got) >= 1
            [third] = succeed(store, "told")
            store.types.put(TaskType("told"))
            await over(sender(store))
        assert {store.tasks.get(task_id).status for task_id in (first, second, third)} == {State.SUCCEEDED}
        assert store.deliveries.of_task(third)[0].status == "dropped"

    asyncio.run(story())


def test_an_address_that_cannot_be_read_is_shown_to_a_person_and_not_taken_for_none(store):
    """Spec: B6"""

    async def story():
        store.types.put(TaskType("told", callback={"success": {"url": "http://127.1/", "method": "POST"}}))
        [task_id] = succeed(store, "told")
        await over(sender(store))
        [sent] = store.deliveries.of_task(task_id)
        assert (sent.status, store.tasks.get(task_id).status) == ("undeliverable", State.NOTIFYING)
        assert "127.1 is not an IPv4 address" in sent.last_error
        assert "127.1 is not an IPv4 address" in store.events.of(task_id)[-1].detail

    asyncio.run(story())


def test_a_secret_that_cannot_be_opened_is_told_and_the_receiver_gets_nothing_unsigned(store, caplog):
    """Spec: B6"""

    async def story():
        receiver = Receiver()
        async with receiving(receiver):
            tell(store, "told", receiver, security=AKSK)
            [task_id] = succeed(store, "told")
            await over(sender(store, Settings(secret="another secret of it", callback_allow="127.0.0.0/8")))  # noqa: S106
            [sent] = store.deliveries.of_task(task_id)
            assert (receiver.got, sent.status) == ([], "pending")
            assert "sealed under another HEADGATE_SECRET" in sent.tries[0].error
            store.deliveries.redeliver(task_id)
            await over(sender(store))
            assert len(receiver.got) == 1

    asyncio.run(story())
    assert "type told was sealed under another HEADGATE_SECRET" in caplog.text


def test_secrets_are_sealed_anew_so_that_the_old_one_can_go(store):
    """Spec: B6"""

    async def story():
        receiver = Receiver()
        async with receiving(receiver):
            tell(store, "told", receiver, security=AKSK)
            before = store.types.by_code()["told"].callback["security"]["sk"]
            newest = "a newer secret of it"
            await over(sender(store, Settings(secret=f"{newest},{SECRET}")))
            after = store.types.by_code()["told"].callback["security"]["sk"]
            assert after != before
            assert Seals([newest]).open(after, "type told") == SK
            succeed(store, "told")
            await over(sender(store, Settings(secret=newest, callback_allow="127.0.0.0/8")))
            assert len(receiver.got) == 1

    asyncio.run(story())


def test_many_senders_send_each_callback_once(store):
    """Spec: B6"""

    async def story():
        receiver = Receiver()
        async with receiving(receiver):
            tell(store, "told", receiver)
            succeed(store, "told", 40)
            await asyncio.gather(*(over(sender(store)) for _ in range(4)))
        assert len(receiver.got) == 40
        assert len({got.headers["webhook-id"] for got in receiver.got}) == 40

    asyncio.run(story())


def test_what_came_of_it_is_not_forgotten_while_the_store_is_away(store):
    """Spec: B6"""
    away = False

    async def in_thread(work, /, *args, **kwargs):
        if away and work == store.deliveries.record_and_lease:
            raise Unavailable("away")
        return work(*args, **kwargs)

    async def story():
        nonlocal away
        receiver = Receiver()
        async with receiving(receiver):
            tell(store, "told", receiver)
            [task_id] = succeed(store, "told")
            duty = Callbacks(store, SETTINGS, in_thread)
            await duty.turn()
            await asyncio.wait(list(duty._sending))
            away = True
            with pytest.raises(Unavailable):
                await duty.turn()
            away = False
            await duty.turn()
        assert store.tasks.get(task_id).status is State.SUCCEEDED
        assert len(receiver.got) == 1

    asyncio.run(story())


@asynccontextmanager
async def started(duty):
    duty.start()
    try:
        yield
    finally:
        async with asyncio.timeout(SOON):
            await duty.stop()


def test_it_is_sent_as_soon_as_it_is_owed_without_a_look_in_vain(store):
    """Spec: B6"""

    async def story():
        receiver = Receiver()
        async with receiving(receiver):
            tell(store, "told", receiver)
            duty = sender(store, Settings(callback_allow="127.0.0.0/8", poll_seconds=3600))
            async with started(duty):
                await asyncio.sleep(0)  # its first look
                succeed(store, "told")
                await receiver.has(1)

    asyncio.run(story())


def test_whoever_stops_gives_back_what_hangs(store, monkeypatch):
    """Spec: B6, D9"""
    monkeypatch.setattr("headgate.duties.callbacks.GRACE_SECONDS", 0.01)

    async def story():
        receiver = Receiver(None)
        async with receiving(receiver):
            tell(store, "told", receiver)
            [task_id] = succeed(store, "told")
            async with started(sender(store)):
                await receiver.has(1)
            [sent] = store.deliveries.of_task(task_id)
            assert (sent.status, sent.attempts, sent.tries) == ("pending", 0, [])
            await over(sender(store))
            assert len({got.headers["webhook-id"] for got in receiver.got}) == 1
        assert store.tasks.get(task_id).status is State.SUCCEEDED

    asyncio.run(story())


def test_what_waits_is_looked_at_at_its_time(store, monkeypatch):
    """Spec: B6"""
    monkeypatch.setattr("headgate.duties.callbacks.random_number", lambda: 0.5)  # a draw near 0 sends it again at once

    async def story():
        receiver = Receiver(500)
        async with receiving(receiver):
            tell(store, "told", receiver)
            succeed(store, "told")
            duty = sender(store, Settings(callback_allow="127.0.0.0/8", poll_seconds=3600))
            await over(duty)
            [queue] = store.deliveries.lines()
            assert queue.kind is CallbackKind.SUCCESS
            assert duty._next_pause() <= 5.0

    asyncio.run(story())
