"""A queue of RabbitMQ, seen from outside."""

from collections.abc import Callable

import pika  # type: ignore[import-not-found]


def drop(url: str, *queues: str) -> None:
    """Delete queues, whatever they hold."""
    connection = pika.BlockingConnection(pika.URLParameters(for_pika(url)))
    for queue in queues:
        connection.channel().queue_delete(queue)
    connection.close()


def waiting(url: str, queue: str) -> Callable[[], int]:
    """A call that asks how many messages nobody has taken yet."""
    channel = pika.BlockingConnection(pika.URLParameters(for_pika(url))).channel()
    return lambda: int(channel.queue_declare(queue, passive=True).method.message_count)


def for_pika(url: str) -> str:
    """The virtual host "/", as pika wants it."""
    return url.removesuffix("//") + "/%2F"
