"""docs/rabbitmq.md: its server, its workers and its subscriber run, at a real broker."""

from tests.docs.guides import ROOT, Guide


def test_the_commands_of_the_guide_to_rabbitmq_run(broker, tmp_path):
    """Spec: D1, D6"""
    (tmp_path / "clients").symlink_to(ROOT / "clients")
    guide = Guide("rabbitmq.md", {"amqp://headgate:…@rabbit:5672/": broker})
    assert guide.tried(tmp_path) >= 6
    assert any("dispatcher: hands tasks to the broker" in line for line in guide.printed)
    assert any('"following": "billing"' in line for line in guide.printed)
