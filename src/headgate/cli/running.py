"""A process that executes tasks, does duties and answers HTTP until it is told to stop.

python -m headgate.cli.running PLAN
"""

import asyncio
import gc
import importlib
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from itertools import count
from typing import Any

import headgate.cli.logs as logs
from headgate.app import Headgate
from headgate.cli.apps import apps_in, bind_apps, settings_of
from headgate.cli.exits import FAILED, code_of, print_error
from headgate.cli.plan import Duties, ProcessPlan, plan_from_argv
from headgate.core.errors import HeadgateError
from headgate.duties import all_duties, light_duties
from headgate.pack import find_packs
from headgate.pack_setup import set_up
from headgate.settings import Settings
from headgate.store.store import Store, configured_store
from headgate.threads import Threads
from headgate.worker.worker import Worker

try:
    import uvloop

    new_event_loop: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
except ImportError:
    new_event_loop = asyncio.new_event_loop

log = logging.getLogger("headgate")
SIGNALS = (signal.SIGTERM, signal.SIGINT)
DUTY_THREADS = 2
COLLECT_AFTER = 10_000  # objects: a few dozen requests under way have as many, and leave no circles behind
SERVING_MODULE = "headgate.cli.serving"
_DUTIES = {Duties.ALL: all_duties, Duties.LIGHT: light_duties, Duties.NONE: lambda *_: []}


def run(plan: ProcessPlan) -> None:
    """Work on the plan until a signal ends it."""
    apps = apps_in(plan.modules)
    if plan.work and not apps:  # the tasks of packs alone
        apps = [Headgate()]
    packs = {*plan.packs, *(name for app in apps for name in app.settings.pack_names)}
    for app in apps:
        app.use_packs(packs)
    settings = settings_of(apps, os.environ.get("HEADGATE_URL"))
    packs |= set(settings.pack_names)
    settings = replace(settings, packs=",".join(sorted(packs)), **_without_none({"host": plan.host, "port": plan.port}))
    # Loaded only where it is served: it would double the memory of a worker. And bound before anything is written.
    listening = importlib.import_module(SERVING_MODULE).listen_on(settings.host, settings.port) if plan.api else None
    with configured_store(settings) as store:
        if plan.migrate:
            store.migrate()
        else:
            store.bring_up_to_date()
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(_serve(plan, store, apps, settings, listening))


def tune_garbage_collector() -> None:
    """Exclude what is loaded by now from garbage collection, and collect less often: most objects leave no cycles."""
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER, *gc.get_threshold()[1:])


def _without_none(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


async def _serve(
    plan: ProcessPlan, store: Store, apps: list[Headgate], settings: Settings, listening: socket.socket | None
) -> None:
    api = None if listening is None else importlib.import_module(SERVING_MODULE).Api(store, settings, listening)
    set_up(store, find_packs(settings.pack_names), migrate=plan.migrate)
    registry = bind_apps(apps, store)  # last: a process that cannot serve changes no type
    executes = plan.work and bool(plan.modules or len(registry) or not plan.api)  # a pack may bring nothing to execute
    slots = {"concurrency": plan.concurrency, "threads": plan.threads, "children": plan.children}
    worker = Worker(store, registry, settings, name=plan.name, **_without_none(slots)) if executes else None
    ended = asyncio.Event()

    def stop() -> None:
        if api is not None:
            api.stop()
        if worker is not None:
            worker.stop()
        ended.set()

    _stop_on_signals(stop, settings.shutdown_seconds, plan.supervised)
    with closing(Threads("headgate duty", DUTY_THREADS)) as in_thread:
        duties = _DUTIES[plan.duties](store, settings, in_thread)
        if api is not None:
            await api.start(on_end=stop)
        tune_garbage_collector()
        for duty in duties:
            duty.start()
        if plan.greeting:
            log.info("%s", plan.greeting)
        try:
            await (ended.wait() if worker is None else worker.run())
        finally:
            if api is not None:
                await api.ended()
            for duty in duties:
                await duty.stop()
    log.info("stopped")


def _stop_on_signals(stop: Callable[[], None], seconds: float, supervised: bool) -> None:
    loop = asyncio.get_running_loop()

    requests = count(1)

    def request_stop(name: str) -> None:
        first = next(requests) == 1
        text = f"finishing what runs, for {seconds:g} s at most; once more to stop at once"
        log.info("%s: %s", name, text if first else "stopping at once")
        stop()

    def stop_at_end_of_stdin() -> None:
        if not os.read(sys.stdin.fileno(), 1):
            loop.remove_reader(sys.stdin.fileno())
            request_stop("the supervisor is gone")

    for number in SIGNALS:
        loop.add_signal_handler(number, request_stop, number.name)
    if supervised:
        loop.add_reader(sys.stdin.fileno(), stop_at_end_of_stdin)


def main() -> None:
    plan = plan_from_argv()
    logs.set_up(plan.log_json)
    try:
        run(plan)
    except HeadgateError as error:
        print_error(error)
        sys.exit(code_of(error))
    except KeyboardInterrupt:  # before there was a loop to hear of it
        sys.exit(FAILED)


if __name__ == "__main__":
    main()
