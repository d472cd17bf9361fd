"""A download whose worker is killed: somebody else continues the part that is there."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil

from headgate.core.states import State
from headgate.packs.media.fetching import download
from headgate.packs.media.sample_site import SLOW_BYTES
from tests.packs.media.conftest import yt_dlps
from tests.worker.conftest import until

PATIENCE = 120.0
HEADGATE = str(Path(sys.executable).with_name("headgate"))


def test_a_download_whose_worker_is_killed_continues_where_it_was(curator, environment):
    """Spec: C12, C3, D9"""
    store = curator.app.store
    environment.setenv("HEADGATE_URL", curator.app._settings.url)
    environment.setenv("HEADGATE_LEASE_SECONDS", "3")
    environment.setenv("HEADGATE_BEAT_SECONDS", "0.5")
    task = download.submit_sync(f"{curator.site.address}/file/slow-1.1.mp4")
    with subprocess.Popen([HEADGATE, "work", "--pack", "media"], stderr=subprocess.DEVNULL) as supervisor:
        try:
            until(lambda: any(part.stat().st_size for part in curator.library.rglob("*.part")), PATIENCE)
            [yt_dlp] = [psutil.Process(pid) for pid in yt_dlps(curator.runs)]
            handler = yt_dlp.parent()
            assert handler is not None
            worker = handler.parent()
            assert worker is not None
            os.kill(worker.pid, signal.SIGKILL)
            assert psutil.wait_procs([worker, handler, yt_dlp], PATIENCE)[1] == []
            curator.site.step_seconds = 0
            until(lambda: store.tasks.get(task.id).status is State.SUCCEEDED, PATIENCE)
        finally:
            supervisor.terminate()
            supervisor.wait(PATIENCE)
    assert curator.site.requests[-1].first_byte > 0
    [file] = curator.files()
    assert (curator.library / file).stat().st_size == SLOW_BYTES
    assert len(yt_dlps(curator.runs)) == 2
