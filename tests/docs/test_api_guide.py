"""The guide to the API shows what its commands answer."""

import os
import re
import subprocess

from headgate.store.store import open_store
from tests.api.serving import PATIENCE, serving
from tests.docs.guides import Guide


def test_the_guide_to_the_api_shows_what_its_commands_answer(tmp_path):
    """Spec: A13, X6"""
    url = f"sqlite:///{tmp_path}/store.db"
    with open_store(url) as store:
        store.migrate()
    with serving(url) as server:
        port = server.address.rpartition(":")[2]
        (tmp_path / ".curlrc").write_text(f"connect-to = localhost:8000:127.0.0.1:{port}\n")
        ran = 0
        for command, shown in Guide("api.md").sessions:
            run = subprocess.run(
                ["bash", "-c", command], env=os.environ | {"CURL_HOME": str(tmp_path)}, capture_output=True, text=True,
                timeout=PATIENCE, check=True,
            )  # fmt: skip
            pattern = ".*".join(re.escape(part) for part in shown.strip().split("…"))
            assert re.match(pattern, run.stdout, re.DOTALL), (command, run.stdout[:400])
            ran += 1
    assert ran > 15
