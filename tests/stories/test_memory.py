"""The kernel kills a handler's process for want of memory."""

from pathlib import Path

from headgate.core.states import State
from tests.cgroups import cgroup_of
from tests.stories import bodies
from tests.stories.bodies import bound_to
from tests.stories.crew import PATIENCE, crew, until

MEGABYTES = 400  # for a worker and one process


def test_a_process_that_the_kernel_kills_for_want_of_memory_is_charged_an_error_and_no_loss(url: str, tmp_path: Path):
    """Spec: A11"""
    app = bound_to(url)
    with cgroup_of(MEGABYTES) as members_of_cgroup, crew(url, tmp_path, lease=30) as members:
        worker = members.start()
        until(lambda: app.store.workers.all(), "it signs on")
        members_of_cgroup.write_text(str(worker.pid))
        hungry = bodies.devour.submit_sync()
        ended = hungry.wait_sync(PATIENCE)
        good = bodies.step.submit_sync(0.0)
        assert good.wait_sync(PATIENCE).status is State.SUCCEEDED, "its worker lives on"
    assert ended.status is State.FAILED
    assert ended.error == "killed: memory: the system had none left"
    assert (hungry.record_sync().error_count, hungry.record_sync().lost_count) == (1, 0)
