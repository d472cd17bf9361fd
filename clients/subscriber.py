#!/usr/bin/env python3
"""A subscriber to Headgate's events in Python, with aiormq: acts upon each once, whatever comes twice or is cut short.

    pip install aiormq
    BROKER=amqp://user:password@rabbit python subscriber.py events.db billing 'task.completed.#' 'task.failed.#'

It has a queue of its own, which fills while it is away. A message is acknowledged after the commit of what it led to,
so it may come again; the event's id, kept in that same commit, tells.
"""

import asyncio
import contextlib
import json
import os
import random
import sqlite3
import sys

import aiormq

BROKER = os.environ.get("BROKER")
if len(sys.argv) < 4 or not BROKER:
    print("usage: BROKER=amqp://… python subscriber.py DATABASE QUEUE KEY…", file=sys.stderr)
    sys.exit(2)
DATABASE, QUEUE, *KEYS = sys.argv[1:]
PREFETCH = 100
KEPT_DAYS = 7  # before the last event: what was handled just before a long absence may come again after it
TABLES = """
CREATE TABLE IF NOT EXISTS seen (event_id INTEGER PRIMARY KEY, at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP);
CREATE TABLE IF NOT EXISTS ended (kind TEXT, type TEXT, count INTEGER NOT NULL, PRIMARY KEY (kind, type));
"""


def act(database, event):
    """What an event leads to: here, a count. Replace it with what you do, in the same database."""
    database.execute(
        "INSERT INTO ended VALUES (?, ?, 1) ON CONFLICT DO UPDATE SET count = count + 1", (event["kind"], event["type"])
    )


def handle(database, event):
    """Act upon an event once: its id and what it leads to are committed together, or neither."""
    with database:
        new = database.execute("INSERT OR IGNORE INTO seen (event_id) VALUES (?)", (event["id"],)).rowcount == 1
        if new:
            act(database, event)
    print(json.dumps({"event": event["id"], "kind": event["kind"], "new": new}), flush=True)


async def follow(database):
    """Take messages until the connection is lost."""
    connection = await aiormq.connect(BROKER)
    try:
        channel = await connection.channel()
        await channel.basic_qos(prefetch_count=PREFETCH)
        await channel.queue_declare(QUEUE, durable=True, arguments={"x-queue-type": "quorum"})
        for key in KEYS:
            await channel.queue_bind(QUEUE, "headgate.events", key)  # which is there once Headgate was
        inbox = asyncio.Queue()
        channel.closing.add_done_callback(lambda _: inbox.put_nowait(None))
        await channel.basic_consume(QUEUE, inbox.put)
        print(json.dumps({"following": QUEUE}), flush=True)
        while (message := await inbox.get()) is not None:
            try:
                event = json.loads(message.body)
                event["id"], event["kind"], event["type"]
            except (ValueError, TypeError, KeyError):
                print("a message that is no event is rejected", file=sys.stderr, flush=True)
                await channel.basic_reject(message.delivery_tag, requeue=False)
                continue
            handle(database, event)
            await channel.basic_ack(message.delivery_tag)
    finally:
        await connection.close()


async def main():
    database = sqlite3.connect(DATABASE)
    database.executescript(TABLES)
    database.execute("DELETE FROM seen WHERE at < (SELECT datetime(max(at), ?) FROM seen)", (f"-{KEPT_DAYS} days",))
    database.commit()
    while True:
        try:
            await follow(database)
        except (OSError, aiormq.exceptions.AMQPError, asyncio.CancelledError) as error:
            if asyncio.current_task().cancelling():  # else it is how the client says that the connection was lost
                raise
            print(f"not connected: {type(error).__name__}; trying again", file=sys.stderr, flush=True)
        await asyncio.sleep(0.5 + random.random())


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main())
