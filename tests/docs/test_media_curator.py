"""docs/media-curator.md shows what its commands print, against the sample site and with the real yt-dlp."""

from headgate.packs.media.sample_site import PLUGINS, serving
from tests.docs.guides import Guide


def test_the_guide_to_a_media_curator_shows_what_its_commands_print(tmp_path):
    """Spec: C5, C7, C9"""
    settings = {
        "HEADGATE_PACKS": "media",
        "HEADGATE_SECRET": "what the server keeps to itself",
        "YT_DLP_PLUGIN_DIRS": str(PLUGINS),
    }
    (tmp_path / ".env").write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    guide = Guide("media-curator.md")
    with serving() as site:
        guide.text = guide.text.replace("http://127.0.0.1:8001", site.address)
        assert guide.tried(tmp_path) >= 16
