"""Secrets are sealed anew under the newest HEADGATE_SECRET, or it is said that they are not."""

import asyncio
import json
from dataclasses import replace

import pytest

from headgate.outward.sealing import Seals
from headgate.settings import Settings
from headgate.store.db.statement import Statement
from tests.duties.test_callbacks import AKSK, SECRET, over, sender, tell
from tests.outward.receiver import Receiver

NEWEST = Settings(secret=f"a newer secret of it,{SECRET}")
_CONFIG = Statement("SELECT config FROM headgate_task_metadata WHERE code = 'told'")
_PUT_CONFIG = Statement("UPDATE headgate_task_metadata SET config = :config WHERE code = 'told'")


def put_told(store):
    nobody = Receiver()
    nobody.port = 9  # to which nothing is sent
    tell(store, "told", nobody, security=AKSK)


def is_current(store):
    return Seals(NEWEST.secrets).is_current(store.types.by_code()["told"].callback["security"]["sk"])


def test_what_an_older_headgate_wrote_is_sealed_anew_and_keeps_all_else(store):
    """Spec: B6. It says nothing of what types could not say then, or some things in other words."""
    put_told(store)
    before = json.loads(store.database.read(lambda db: db.rows(_CONFIG))[0][0])
    for name in ("priority", "mutex", "rate_key", "unique_key", "defaults", "on_child_failure"):
        del before[name]
    old = before | {"timeout": 30, "of_a_newer": 1}
    store.database.write(lambda db: db.send(_PUT_CONFIG, config=json.dumps(old, indent=1)))
    asyncio.run(over(sender(store, NEWEST)))
    assert is_current(store)
    after = json.loads(store.database.read(lambda db: db.rows(_CONFIG))[0][0])
    assert after | {"callback": None} == old | {"callback": None}


@pytest.mark.parametrize("sealed_too", [False, True], ids=["edited", "sealed anew"])
def test_a_secret_that_stays_sealed_under_an_older_one_is_warned_of_once(store, monkeypatch, caplog, sealed_too):
    """Spec: B6. Somebody edits the type just then; if by that it is sealed anew, all is well."""
    put_told(store)
    reseal = store.deliveries.reseal

    def late(task_type, callback):
        if sealed_too:
            assert reseal(task_type, callback)
        else:
            store.types.put(replace(task_type, name="edited"))
        return reseal(task_type, callback)

    async def story():
        duty = sender(store, NEWEST)
        for _ in range(2):
            await duty.turn()
        await duty.stop()

    monkeypatch.setattr(store.deliveries, "reseal", late)
    asyncio.run(story())
    warned = [each for each in caplog.records if "callback secret stays sealed" in each.getMessage()]
    assert (is_current(store), len(warned)) == ((True, 0) if sealed_too else (False, 1))
