"""The guide to forecasts shows what happens."""

from headgate.store.store import open_store
from tests.docs.guides import Guide


def test_the_guide_to_forecasts_prints_what_it_says(tmp_path):
    """Spec: X3"""

    def measure() -> None:
        with open_store(f"sqlite:///{tmp_path}/headgate.db") as store:
            store.statistics.take_sample()

    assert Guide("forecast.md").tried(tmp_path, before_each=measure) > 10
