"""The names that a tenant's tasks make up are bounded: what is over the limit is refused, and changes nothing."""

import pytest

from headgate.core.errors import Invalid, Refused
from headgate.core.limits import MostNames, most_names
from headgate.core.machine import Returned
from headgate.core.states import FINAL
from headgate.core.task import NewTask
from headgate.settings import Settings
from headgate.store.store import configured_store, open_store
from tests.factories import running, settle, sql, submit

TENANT = 7


@pytest.fixture
def narrow(store, url, clock):
    """The same store, where a tenant may make up three names."""
    with open_store(url, clock, most_names=MostNames(3)) as opened:
        yield opened


def counts(url):
    return [
        sql(url, f"SELECT count(*) FROM headgate_{table}")[0][0]
        for table in ("task", "stream", "lane", "rate_limit", "resource")
    ]


@pytest.mark.parametrize("field", ["lane", "rate_key", "category", "agent_id"])
def test_a_submit_that_makes_up_one_name_too_many_is_refused_and_changes_nothing(narrow, url, field):
    """Spec: X12"""

    def one_of(name):
        return NewTask("plain", tenant_id=TENANT)._replace(**{field: name})

    for number in range(3):
        narrow.tasks.submit(one_of(f"name {number}"))
    before = counts(url)
    with pytest.raises(Refused) as refused:
        narrow.tasks.submit_many([one_of("name 0"), one_of("one more")])
    assert (refused.value.code, refused.value.params) == ("too-many-streams", {"tenant_id": TENANT, "most": 3})
    assert counts(url) == before
    narrow.tasks.submit(one_of("name 1"))


def test_a_tenant_at_its_limit_keeps_no_other_from_making_up_names(narrow):
    """Spec: X12"""
    for number in range(3):
        submit(narrow, tenant_id=TENANT, lane=f"lane {number}")
    for number in range(3):
        submit(narrow, tenant_id=8, lane=f"lane {number}")


def test_what_has_no_tenant_has_no_limit_unless_one_is_set(narrow, url, clock):
    """Spec: X12"""
    for number in range(5):
        submit(narrow, lane=f"lane {number}")
    with open_store(url, clock, most_names=most_names("tenant_names", "5")) as limited, pytest.raises(Refused):
        submit(limited, lane="one more")


def test_a_place_is_free_again_once_an_unused_stream_is_removed(narrow):
    """Spec: X12"""
    tasks = [submit(narrow, tenant_id=TENANT, lane=f"lane {number}") for number in range(3)]
    with pytest.raises(Refused):
        submit(narrow, tenant_id=TENANT, lane="one more")
    narrow.tasks.cancel(tasks[0].id)
    narrow.history.archive()
    narrow.history.purge(FINAL, seconds=0.0)
    narrow.streams.remove(narrow.streams.unused()[1])
    submit(narrow, tenant_id=TENANT, lane="one more")


def test_a_schedule_fires_into_a_lane_of_its_own_whatever_its_tenant_has_made_up(narrow):
    """Spec: B9 (else one tenant at its limit would hold up the ticks of all that are due with its own)"""
    for number in range(3):
        submit(narrow, tenant_id=TENANT, lane=f"lane {number}")
    narrow.catalog.make_streams([NewTask("plain", tenant_id=TENANT, lane="ticks", category="")])


def test_a_hold_of_one_resource_too_many_is_refused_and_the_tenants_others_can_be_held(narrow, url):
    """Spec: X12"""
    execution = running(narrow, tenant_id=TENANT)
    for number in range(3):
        assert narrow.holds.take(execution.id, execution.exec_id, f"customer-{number}").held
    before = counts(url)
    with pytest.raises(Refused) as refused:
        narrow.holds.take(execution.id, execution.exec_id, "one-more")
    assert (refused.value.code, refused.value.params) == ("too-many-resources", {"tenant_id": TENANT, "most": 3})
    assert counts(url) == before
    narrow.holds.release(execution.id, execution.exec_id, ["customer-1"])
    assert narrow.holds.take(execution.id, execution.exec_id, "customer-1").held
    settle(narrow, execution, Returned())
    other = running(narrow, tenant_id=8)
    assert narrow.holds.take(other.id, other.exec_id, "one-more").held


def test_the_store_that_settings_name_has_their_bound(store, url):
    """Spec: X12"""
    with configured_store(Settings(url=url, tenant_names="1")) as opened:
        submit(opened, tenant_id=TENANT)
        with pytest.raises(Refused, match="tenant 7 has 1 comb"):
            submit(opened, tenant_id=TENANT, lane="one more")


@pytest.mark.parametrize(
    ("text", "meant"),
    [("", MostNames(10_000, None)), ("none", MostNames(None, None)), (" 50 ", MostNames(50, 50))],
)
def test_the_setting_is_a_number_for_every_tenant_or_none(text, meant):
    """Spec: X12"""
    assert most_names("tenant_names", text) == meant


@pytest.mark.parametrize("text", ["0", "-1", "many", "1.5"])
def test_a_setting_that_is_neither_is_refused(text):
    with pytest.raises(Invalid, match="tenant_names"):
        most_names("tenant_names", text)
