"""docs/media-curator.md shows what its commands print, against the sample site and with the real yt-dlp."""

from lab.server import free_port
from tests.docs.guides import Guide


def test_the_guide_to_a_media_curator_shows_what_its_commands_print(tmp_path):
    """Spec: C5, C7, C9"""
    port = str(free_port())
    guide = Guide(
        "media-curator.md", {"media.demo ": f"media.demo --port {port} ", "127.0.0.1:8001": f"127.0.0.1:{port}"}
    )
    assert guide.tried(tmp_path) >= 16
