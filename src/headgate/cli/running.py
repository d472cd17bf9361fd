"""A process that executes tasks, does duties and answers HTTP until it is told to stop.

python -m headgate.cli.running PLAN
"""

import asyncio
import gc
import importlib
import logging
import os
import sys
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import headgate.cli.logs as logs
from headgate.app import Headgate
from headgate.cli.apps import apps_in, bind_apps, listeners_of, settings_of
from headgate.cli.exits import DONE, FAILED, code_of, print_error
from headgate.cli.plan import Duties, ProcessPlan, plan_from_argv
from headgate.cli.store_wait import SIGNALS, wait_for_store
from headgate.cli.stores import sqlite_file
from headgate.cli.supervisor import Supervisor
from headgate.core.errors import HeadgateError
from headgate.duties import all_duties, worker_duties
from headgate.events.listeners import Listener
from headgate.pack import find_packs
from headgate.pack_setup import declare_limits, set_up
from headgate.settings import Settings
from headgate.store.store import Store, configured_store
from headgate.threads import Threads
from headgate.worker.listeners import listening
from headgate.worker.parent import Parent
from headgate.worker.pulse import Pulse
from headgate.worker.stage import Stage
from headgate.worker.worker import Worker

try:
    import uvloop

    new_event_loop: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
except ImportError:
    new_event_loop = asyncio.new_event_loop

log = logging.getLogger("headgate")
DUTY_THREADS = 2
FILE_SECONDS = 1.0
COLLECT_AFTER = 10_000  # objects: a few dozen requests under way have as many, and leave no cycles
SERVING_MODULE = "headgate.cli.serving"
_URL = os.environ.get("HEADGATE_URL")
_DUTIES = {Duties.ALL: all_duties, Duties.LIGHT: worker_duties, Duties.NONE: lambda *_: []}


def run(plan: ProcessPlan) -> int:
    """Work on the plan until a signal ends it; the exit code."""
    if plan.parent is not None:
        return _execute(plan, Parent(plan.parent))
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        if plan.work:
            return runner.run(_serve_beside_worker(plan))
        return runner.run(_serve(plan, _with_packs(settings_of([], _URL), plan.packs), None))


def _execute(plan: ProcessPlan, parent: Parent) -> int:
    """Execute tasks, below a parent that keeps this process alive."""
    apps = apps_in(plan.modules)
    if not apps:  # the tasks of packs alone
        apps = [Headgate()]
    packs = {*plan.packs, *(name for app in apps for name in app._settings.pack_names)}
    for app in apps:
        app._use_packs(packs)
    settings = _with_packs(settings_of(apps, _URL), packs)
    parent.tell_settings(settings)
    if not os.read(sys.stdin.fileno(), 1):  # the parent ended before we began
        return DONE
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        if not runner.run(wait_for_store(settings, has_parent=True)):
            return DONE
        return _execute_on_store(plan, parent, apps, settings, runner)


def _execute_on_store(
    plan: ProcessPlan, parent: Parent, apps: list[Headgate], settings: Settings, runner: asyncio.Runner
) -> int:
    with configured_store(settings) as store:
        store.bring_up_to_date()
        set_up(store, find_packs(settings.pack_names), migrate=False)
        registry, listeners = bind_apps(apps, store), listeners_of(apps)
        if not len(registry) and (listeners or (not plan.modules and plan.duties is Duties.NONE)):
            parent.tell_signed_on(None)  # a pack may bring nothing to execute
            return runner.run(_listen(plan, store, settings, listeners))
        slots = _without_none({"concurrency": plan.concurrency, "threads": plan.threads, "children": plan.children})
        stage = Stage(plan.stage)
        worker = Worker(
            store, registry, settings, name=plan.name, listeners=listeners, parent=parent, stage=stage, **slots
        )
        with Pulse(plan.stage, lambda: worker.renewed_at, settings.lease_seconds):
            runner.run(_work(plan, worker, parent))
    return DONE


def _with_packs(settings: Settings, packs: Iterable[str]) -> Settings:
    return replace(settings, packs=",".join(sorted({*packs, *settings.pack_names})))


async def _listen(plan: ProcessPlan, store: Store, settings: Settings, listeners: list[Listener]) -> int:
    async with listening(listeners, store, settings):
        return await _live(plan, store, settings, None, None)


async def _work(plan: ProcessPlan, worker: Worker, parent: Parent) -> None:
    await _live(plan, worker.store, worker.settings, worker, None)
    if worker.unfit:
        parent.end_process()


async def _serve_beside_worker(plan: ProcessPlan) -> int:
    """Serve, with a worker process beside it. Only that process loads the modules, and they set which store to use."""
    supervisor = Supervisor(replace(plan, api=False, duties=Duties.NONE, migrate=False, greeting=""))
    settings = await supervisor.start()
    if settings is None:
        return await supervisor.run()
    try:
        return await _serve(plan, settings, supervisor)
    except BaseException:
        supervisor.stop()
        await supervisor.run()
        raise


async def _serve(plan: ProcessPlan, settings: Settings, supervisor: Supervisor | None) -> int:
    settings = replace(settings, **_without_none({"host": plan.host, "port": plan.port}))
    # Loaded only where it is served: it would double the memory of a worker. And bound before anything is written.
    serving = importlib.import_module(SERVING_MODULE) if plan.api else None
    packs = find_packs(settings.pack_names)  # report an unknown pack before a port in use
    listening = None if serving is None else serving.listen_on(settings.host, settings.port)
    if not await wait_for_store(settings, has_parent=False):
        return await _end(supervisor)
    with configured_store(settings) as store:
        if plan.migrate:
            store.migrate()
        else:
            store.bring_up_to_date()
        api = None if serving is None else serving.Api(store, settings, listening)
        set_up(store, packs, migrate=plan.migrate)
        declare_limits(store, settings)
        if supervisor is not None:
            supervisor.store = store
        return await _live(plan, store, settings, supervisor, api)


async def _end(supervisor: Supervisor | None) -> int:
    """End before anything has begun; the exit code."""
    if supervisor is not None:
        supervisor.stop()
        await supervisor.run()
    log.info("stopped")
    return DONE


def tune_garbage_collector() -> None:
    """Exclude everything loaded so far from garbage collection, and collect less often: few objects leave cycles."""
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER, *gc.get_threshold()[1:])


def _without_none(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


async def _live(plan: ProcessPlan, store: Store, settings: Settings, work: Worker | Supervisor | None, api: Any) -> int:
    """Answer, do the duties and work until a signal comes; the exit code."""
    ended = asyncio.Event()

    def stop() -> None:
        if api is not None:
            api.stop()
        if work is not None:
            work.stop()
        ended.set()

    _stop_on_signals(stop, plan, settings.shutdown_seconds)
    with closing(Threads("headgate duty", DUTY_THREADS)) as in_thread:
        duties = _DUTIES[plan.duties](store, settings, in_thread)
        if isinstance(work, Supervisor):  # first: clients of the API may submit tasks that the worker's modules declare
            work.release()
            if not await work.wait_until_begun():
                ended.set()
        if api is not None and not ended.is_set():
            await api.start(on_end=stop)
        tune_garbage_collector()
        for duty in duties:
            duty.start()
        if plan.greeting and not ended.is_set():
            log.info("%s", plan.greeting)
        code: int | None = DONE
        watching = asyncio.create_task(_stop_if_replaced(sqlite_file(settings.url), stop))
        try:
            if work is None:
                await ended.wait()
            else:
                code = await work.run()
        finally:
            code = FAILED if watching.done() else code
            watching.cancel()
            if api is not None:
                await api.ended()
            for duty in duties:
                await duty.stop()
    log.info("stopped")
    return code or DONE


async def _stop_if_replaced(file: Path | None, stop: Callable[[], None]) -> None:
    """Stop at once when the store's file was replaced: writes to the old file would be lost."""
    before = _identity(file)
    while file is None or _identity(file) == before:  # noqa: ASYNC110 no event says when
        await asyncio.sleep(FILE_SECONDS)
    log.error(
        "the store's file %s was replaced or removed: stopping, because this process still has the old one open", file
    )
    stop()
    stop()


def _identity(file: Path | None) -> tuple[int, int] | None:
    try:
        found = None if file is None else file.stat()
    except OSError:
        return None
    return None if found is None else (found.st_dev, found.st_ino)


def _stop_on_signals(stop: Callable[[], None], plan: ProcessPlan, seconds: float) -> None:
    loop = asyncio.get_running_loop()

    requests = count(1)

    def request_stop(name: str) -> None:
        first = next(requests) == 1
        text = f"waiting up to {seconds:g} s for running tasks; send it again to stop at once"
        if plan.parent is not None or not plan.work:  # else a worker says so
            log.info("%s: %s", name, text if first else "stopping at once")
        stop()

    def stop_at_end_of_stdin() -> None:
        if not os.read(sys.stdin.fileno(), 1):
            loop.remove_reader(sys.stdin.fileno())
            request_stop("the supervisor is gone")

    for number in SIGNALS:
        loop.add_signal_handler(number, request_stop, number.name)
    if plan.parent is not None:
        loop.add_reader(sys.stdin.fileno(), stop_at_end_of_stdin)


def main() -> None:
    plan = plan_from_argv()
    logs.set_up(plan.log_json)
    try:
        sys.exit(run(plan))
    except HeadgateError as error:
        print_error(error)
        sys.exit(code_of(error))
    except KeyboardInterrupt:  # before the loop could handle it
        sys.exit(FAILED)


if __name__ == "__main__":
    main()
