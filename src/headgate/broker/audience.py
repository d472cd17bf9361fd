"""Who listens to which events. The broker does not say, but it returns a mandatory message that no queue takes.

Events that no queue is bound to need not be sent: the broker would drop them. Whether somebody does is asked with the
first event of each kind, type and tenant in a page, after all events of that page were committed. So whoever has bound
a queue before an event happened gets it.
"""

from collections.abc import Collection, Iterable, Sequence

from headgate.core.events import Heading

MOST_HEARD = 10_000
Topic = tuple[str, str | None, int]  # what queues are bound by: kind and type; by way of another exchange, the tenant


def topic_of(event: Heading) -> Topic:
    return event.kind, event.type, event.tenant_id


class Audience:
    """The topics that somebody listened to when last asked."""

    def __init__(self) -> None:
        self._heard: set[Topic] = set()

    def questions(self, page: Sequence[Heading]) -> list[Heading]:
        """The events to ask with: the first of each topic that nobody was known to listen to, each behind the earlier
        events of its task, since those of a task come in order."""
        first: dict[Topic, int] = {}
        for place, event in enumerate(page):
            if topic_of(event) not in self._heard:
                first.setdefault(topic_of(event), place)
        until: dict[int | None, int] = {}
        for place in first.values():
            until[page[place].task_id] = max(place, until.get(page[place].task_id, 0))
        return [event for place, event in enumerate(page) if place <= until.get(event.task_id, -1)]

    def learn(self, events: Iterable[Heading], returned: Collection[int]) -> None:
        """Take the broker's answers: the ids of those that came back."""
        if len(self._heard) > MOST_HEARD:
            self._heard.clear()
        for event in events:
            if event.id in returned:
                self._heard.discard(topic_of(event))
            else:
                self._heard.add(topic_of(event))

    def wanted(self, events: Iterable[Heading]) -> list[Heading]:
        """Those that somebody listens to."""
        return [event for event in events if topic_of(event) in self._heard]


def first_of_each(events: Iterable[Heading]) -> list[Heading]:
    """The first event of each topic."""
    found: dict[Topic, Heading] = {}
    for event in events:
        found.setdefault(topic_of(event), event)
    return list(found.values())
