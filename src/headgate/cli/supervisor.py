"""Several workers as processes of their own, kept alive: python -m headgate.cli.supervisor PLAN"""

import asyncio
import logging
import os
import signal
import sys
import time
from asyncio.subprocess import PIPE, Process
from contextlib import suppress
from dataclasses import replace

import headgate.cli.logs as logs
from headgate.cli.exits import DONE, USAGE
from headgate.cli.plan import WORKER_MODULE, ProcessPlan, command_line, plan_from_argv
from headgate.pauses import Backoff, wait

log = logging.getLogger("headgate")
SIGNALS = (signal.SIGTERM, signal.SIGINT)
RESTARTS = Backoff(0.5, 30.0)
LONG_LIFE_SECONDS = 60.0


class Supervisor:
    """Starts the processes of a plan, passes signals on, and starts another for one that dies."""

    def __init__(self, plan: ProcessPlan) -> None:
        self._plan = plan
        self._processes: set[Process] = set()
        self._stopping = asyncio.Event()
        self._signals: list[signal.Signals] = []
        self._code = DONE

    async def run(self) -> int:
        """Until all processes have ended after a signal, or one said that it cannot work like this; the exit code."""
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, self.stop, number)
        async with asyncio.TaskGroup() as group:
            for process_number in range(1, self._plan.processes + 1):
                group.create_task(self._keep_alive(process_number))
        log.info("all processes have ended")
        return self._code

    def stop(self, number: signal.Signals) -> None:
        """Pass a signal on; nothing is started any more."""
        self._stopping.set()
        self._signals.append(number)
        for process in self._processes:
            _send_signal(process, number)

    async def _keep_alive(self, number: int) -> None:
        quick_ends = 0
        while not self._stopping.is_set():
            started = time.monotonic()
            code = await self._run_once(number)
            if self._stopping.is_set():
                return
            if code == USAGE:  # it would say the same again
                self._code = code
                self.stop(signal.SIGTERM)
                return
            if time.monotonic() - started > LONG_LIFE_SECONDS:
                quick_ends = 0
            pause = RESTARTS.pause(quick_ends)
            log.warning("process %d ended with %d; another one starts in %g s", number, code, pause)
            await wait(self._stopping, pause)
            quick_ends += 1

    async def _run_once(self, number: int) -> int:
        """One life of a process; its exit code."""
        name = f"{self._plan.name}-{number}" if self._plan.name else None
        arguments = command_line(WORKER_MODULE, replace(self._plan, name=name, supervised=True))
        # A group of its own: Ctrl-C in a terminal is for us, and we pass it on once.
        process = await asyncio.create_subprocess_exec(*arguments, stdin=PIPE, process_group=0)
        self._processes.add(process)
        for received in self._signals:  # while it was being started; the others know, and a second time means "at once"
            _send_signal(process, received)
        if not self._signals:
            log.info("process %d is %d", number, process.pid)
        try:
            return await process.wait()
        finally:
            self._processes.discard(process)


def _send_signal(process: Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):  # not by `send_signal`: that might see its end first, and asyncio never
        os.kill(process.pid, number)


async def _supervise(plan: ProcessPlan) -> int:
    return await Supervisor(plan).run()


def main() -> None:
    plan = plan_from_argv()
    logs.set_up(plan.log_json)
    sys.exit(asyncio.run(_supervise(plan)))


if __name__ == "__main__":
    main()
