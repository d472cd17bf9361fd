"""docs/agents.md shows what the commands do, and they do what it shows."""

import os
import re
import signal
import subprocess

from headgate.api.agents.routes import routes
from headgate.store.store import open_store
from tests.api.serving import PATIENCE, ROOT, serving

GUIDE = (ROOT / "docs" / "agents.md").read_text()
HERE = "http://127.0.0.1:8000"


def test_the_guides_agent_of_twenty_lines_does_what_the_guide_says(tmp_path):
    """Spec: B2, X6"""
    [script] = re.findall(r"```bash\n(.*?)```", GUIDE, re.DOTALL)
    assert len([line for line in script.splitlines() if line.strip()]) <= 20
    url = f"sqlite:///{tmp_path}/store.db"
    with open_store(url) as store:
        store.migrate()
    with serving(url) as server:
        path = tmp_path / "agent.sh"
        path.write_text(script.replace(HERE, server.address))
        agent = subprocess.Popen(["bash", path], stdout=subprocess.DEVNULL, start_new_session=True)
        try:
            for command, expected in sessions():
                run = subprocess.run(
                    ["bash", "-c", command.replace(HERE, server.address)], capture_output=True, text=True,
                    timeout=PATIENCE, check=False,
                )  # fmt: skip
                output = re.sub(r'"request_id":"[^"]*"', '"request_id":"…"', run.stdout + run.stderr)
                assert output.strip() == expected.strip(), command
        finally:
            os.killpg(agent.pid, signal.SIGTERM)
            agent.wait(timeout=PATIENCE)


def sessions():
    """Every command of the guide, with what it prints."""
    for block in re.findall(r"```console\n(.*?)```", GUIDE, re.DOTALL):
        command, _, expected = block.removeprefix("$ ").partition("\n")
        yield command, expected


def test_every_route_of_agents_is_in_the_guide():
    """Spec: B2"""
    assert len(routes) == 12
    assert [route.path for route in routes if f"{route.path.rpartition('/')[2]}`" not in GUIDE] == []
