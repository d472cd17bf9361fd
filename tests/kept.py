"""Connections to PostgreSQL that are kept from test to test: a new one reads the catalog of every table first."""

import psycopg

_connections: dict[str, psycopg.Connection] = {}


def kept(url: str) -> psycopg.Connection:
    """A connection without transactions; another one if somebody ended the last."""
    try:
        connection = _connections[url]
        connection.execute("SELECT 1")
    except (KeyError, psycopg.OperationalError):
        connection = _connections[url] = psycopg.connect(url, autocommit=True)
    return connection


def let_go() -> None:
    while _connections:
        _connections.popitem()[1].close()
