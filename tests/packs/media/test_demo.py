"""What `make run` has beside the demonstration tasks: the sample site, and subscriptions to it."""

import os
import socket
import sys
from dataclasses import replace

import pytest

import headgate.demo as demonstration
from headgate.packs.media.demo import COLLECTIONS, FIRST, PLUGIN_VARIABLE, begin, run, subscribe
from headgate.packs.media.sample_site import PLUGINS
from headgate.store.reading.lists import Filter


def test_a_newcomer_has_subscriptions_that_another_start_does_not_double(curator, environment, tmp_path):
    """Spec: C5"""
    environment.setenv("HEADGATE_URL", curator.app._settings.url)
    curator.app.close()
    for _ in range(2):
        subscribe("http://127.0.0.1:8001")
    assert sorted(each.name for each in curator.subscriptions.find(0)) == sorted(COLLECTIONS)
    assert len(curator.app.store.tasks.find(Filter(type="list_fetch")).items) == len(FIRST)


def test_nothing_is_submitted_when_the_port_of_the_server_is_taken(curator, monkeypatch):
    settings = curator.app._settings
    with socket.create_server(("127.0.0.1", 0)) as taken:
        theirs = replace(settings, host="127.0.0.1", port=taken.getsockname()[1])
        monkeypatch.setattr(demonstration.app, "_settings", theirs)
        with pytest.raises(OSError, match="in use"):
            begin("http://127.0.0.1:8001")
    assert curator.app.store.tasks.find(Filter()).items == []
    assert curator.subscriptions.find(0) == []


def test_the_command_beside_the_site_can_read_it_and_says_how_it_ended(environment, tmp_path):
    """Spec: C5"""
    environment.setenv(PLUGIN_VARIABLE, "mine")
    said = tmp_path / "said"
    program = f"import os, sys; open({str(said)!r}, 'w').write(os.environ[{PLUGIN_VARIABLE!r}]); sys.exit(7)"
    assert run([sys.executable, "-c", program]) == 7
    assert said.read_text().split(os.pathsep) == [str(PLUGINS), "mine"]
