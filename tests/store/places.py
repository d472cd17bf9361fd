"""Empty databases that a test may do anything to."""

import os
from pathlib import Path
from urllib.parse import quote

import psycopg


class Places:
    """Empty databases, of one kind."""

    def __init__(self, database: str, folder: Path, server: str) -> None:
        self._database = database
        self._folder = folder
        self._server = server
        self._made: list[str] = []

    def new(self, name: str) -> str:
        if self._database == "sqlite":
            return f"sqlite:///{self._folder}/{name}.db"
        schema = f"{name}_{os.environ.get('PYTEST_XDIST_WORKER', 'main')}"
        self._made.append(schema)
        self._run(f"DROP SCHEMA IF EXISTS {schema} CASCADE", f"CREATE SCHEMA {schema}")
        return f"{self._server}?options={quote(f'-csearch_path={schema}')}"

    def clear(self) -> None:
        self._run(*[f"DROP SCHEMA {schema} CASCADE" for schema in self._made])

    def _run(self, *texts: str) -> None:
        if texts:
            with psycopg.connect(self._server, autocommit=True) as connection:
                for text in texts:
                    connection.execute(text)
