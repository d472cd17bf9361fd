"""Unique by arguments: one key for all texts that mean the same."""

import hashlib
import json
from typing import Any

BY_ARGUMENTS = "arguments"
MOST_EXACT = 2**53  # a float above it stands for many whole numbers, and 1e308 written out has 309 digits


def unique_key_of(ext: str) -> str:
    """A unique key made of a task's arguments: the order of names, spaces, and `1.0` for `1` make no difference."""
    text = json.dumps(_normalized(json.loads(ext)), sort_keys=True, separators=(",", ":"))
    return f"{BY_ARGUMENTS}:{hashlib.sha256(text.encode()).hexdigest()[:40]}"


def _normalized(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _normalized(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_normalized(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) <= MOST_EXACT else value
