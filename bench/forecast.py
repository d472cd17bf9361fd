"""How far forecasts are from what happens on a steady lane of a real worker, and what one costs."""

import random
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from bench.figure import Scale
from bench.measurement import EXT, TYPE, fresh_store
from bench.peers import tasks
from bench.percentile import percentile
from bench.place import Place
from bench.subject import running
from headgate.core.machine import Returned
from headgate.core.states import State
from headgate.core.task import DEFAULT_LANE, NewTask
from headgate.settings import load
from headgate.store.claim.contract import ClaimRequest, Outcome
from headgate.store.reading.lists import Filter
from headgate.store.store import Store, open_store

COMMAND = str(Path(sys.executable).with_name("headgate"))
LANE, CAPACITY = "press", 4
SECONDS = (0.05, 0.15)  # that a page takes, by chance
POLL_SECONDS = 0.5
AHEAD = (40, 80, 160)
WARM = 60  # pages after which the lane is known
PATIENCE = 120.0


def errors(place: Place, scale: Scale, folder: Path) -> Sequence[float]:
    """Shares of the true wait by which forecasts were off, p50 and p90, in percent."""
    with ExitStack() as stack:
        url = stack.enter_context(place.fresh())
        store = stack.enter_context(open_store(url))
        store.migrate()
        log = stack.enter_context((folder / "workers.log").open("ab"))
        store.lanes.set_capacity(LANE, CAPACITY)
        ids = _fill(url, scale.pages)
        stack.enter_context(running([COMMAND, "work", tasks.__name__, "--url", url], {}, log))
        forecasts = _forecasts(store, ids)
        found = [_error(store, task_id, when, forecast) for task_id, (when, forecast) in forecasts.items()]
        return [100 * percentile(found, 0.5), 100 * percentile(found, 0.9)]


def _fill(url: str, count: int) -> list[int]:
    tasks.app._settings = load({"url": url})
    pages = [tasks.page.call(random.uniform(*SECONDS)) for _ in range(count)]
    ids = [task.id for task in tasks.app.submit_many_sync(pages)]
    tasks.app.close()
    return ids


def _forecasts(store: Store, ids: Sequence[int]) -> dict[int, tuple[float, float]]:
    """Forecast starts at several distances until the lane is empty: by task, when that was, and the forecast."""
    found: dict[int, tuple[float, float]] = {}
    end = time.monotonic() + PATIENCE
    while (waiting := store.statistics.depths().get(LANE, 0)) or store.tasks.find(
        Filter(status=(State.RUNNING,)), limit=1
    ).items:
        if time.monotonic() > end:
            raise TimeoutError(f"{waiting} pages were left after {PATIENCE:g} s")
        store.statistics.take_sample()
        begun = len(ids) - waiting
        for ahead in AHEAD if begun > WARM else ():
            if begun + ahead < len(ids):
                forecast = store.forecasts.why(ids[begun + ahead]).forecast
                if forecast is not None and forecast.at is not None and forecast.seconds is not None:
                    at = forecast.at.timestamp()
                    found.setdefault(ids[begun + ahead], (at - forecast.seconds, at))
        time.sleep(POLL_SECONDS)
    return found


def _error(store: Store, task_id: int, when: float, forecast: float) -> float:
    begun = store.tasks.get(task_id).started_at
    assert begun is not None
    return abs((forecast - when) / (begun.timestamp() - when) - 1)


def cost(place: Place, scale: Scale, folder: Path) -> Sequence[float]:
    """Milliseconds of a forecast, p50, with a few waiting and with very many."""
    with fresh_store(place) as (store, url):
        store.lanes.set_capacity(DEFAULT_LANE, 1)
        worker_id = store.workers.register("bench", lease_seconds=3600.0)
        task_id = store.tasks.submit(NewTask(TYPE, ext=EXT)).id
        [execution] = store.claims.take(ClaimRequest(worker_id, 1)).executions
        store.executions.settle([Outcome(execution, Returned())])
        first, last = (store.tasks.submit(NewTask(TYPE, ext=EXT, priority=priority)).id for priority in (5, 6))
        assert task_id < first
        few = _milliseconds(store, last, scale)
        place.clone(url, first, scale.depth)
        store.statistics.take_sample()
        return [few, _milliseconds(store, last, scale)]


def _milliseconds(store: Store, task_id: int, scale: Scale) -> float:
    taken = []
    for _ in range(scale.probes):
        begun = time.perf_counter()
        store.forecasts.why(task_id)
        taken.append(1000 * (time.perf_counter() - begun))
    return percentile(taken, 0.5)
