"""The value that a share of all values does not exceed."""

import math
from collections.abc import Collection


def percentile(values: Collection[float], share: float) -> float:
    """An actual value, never one between two of them."""
    return sorted(values)[max(math.ceil(share * len(values)), 1) - 1]
