"""Unique by arguments: one key for all texts that say the same."""

import hashlib
import json
from typing import Any

BY_ARGUMENTS = "arguments"


def key_of(ext: str) -> str:
    """A unique key made of a task's arguments: the order of names, spaces, and `1.0` for `1` make no difference."""
    said = json.dumps(_plain(json.loads(ext)), sort_keys=True, separators=(",", ":"))
    return f"{BY_ARGUMENTS}:{hashlib.sha256(said.encode()).hexdigest()[:40]}"


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
