"""A worker says how many tasks of which types it runs at once, from its first moment on."""

import json

from tests.worker.conftest import until, working


def test_a_worker_says_from_its_sign_on_how_many_of_which_types_it_runs_at_once(app):
    """Spec: X3, A8"""

    @app.task
    async def light() -> None: ...

    @app.task
    def heavy() -> None: ...

    with working(app, concurrency=7, threads=3):
        until(lambda: bool(app.store.workers.all()))
        [worker] = app.store.workers.all()
        detail = json.loads(worker.detail)
    assert detail["pools"] == [{"types": ["light"], "slots": 7}, {"types": ["heavy"], "slots": 3}]
    assert detail["cpu_seconds"] > 0
