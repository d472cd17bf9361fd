"""Deleting a subscription: it is marked first, then its open tasks are cancelled.

If the process dies in between, `FinishDeletions` does the rest; it also cancels tasks submitted meanwhile.
"""

from headgate.packs import PERSON, Duty, NotFound, Refused, Store
from headgate.packs.media.subscription_tasks import SubscriptionTasks
from headgate.packs.media.subscriptions import Subscription, Subscriptions

SYSTEM = "system:media"
AT_ONCE = 200  # tasks, while somebody waits for the answer


def delete_subscription(
    store: Store, subscription_id: int, tenant_id: int | None = None, *, actor: str = PERSON
) -> Subscription:
    """Mark it and cancel its open tasks; if there are many, the duty cancels the rest. Repeating it is no error."""
    subscription = Subscriptions(store.database).mark_deleted(subscription_id, tenant_id, actor=actor)
    cancel_tasks(store, subscription)
    return subscription


def cancel_tasks(store: Store, subscription: Subscription) -> int:
    """Cancel up to a number of open tasks of a deleted subscription; returns how many there were."""
    found = SubscriptionTasks(store.database).to_cancel(subscription.id, subscription.tenant_id, limit=AT_ONCE)
    for task_id in found:
        try:
            store.tasks.cancel(task_id, f"subscription {subscription.id} was deleted", actor=SYSTEM)
        except (NotFound, Refused):  # it has ended meanwhile
            continue
    return len(found)


class FinishDeletions(Duty):
    """Cancels what is open of deleted subscriptions."""

    name = "media deletions"
    pause = 5.0
    page = 10  # subscriptions

    async def turn(self) -> int:
        return await self._in_thread(self._cancel)

    def _cancel(self) -> int:
        subscriptions = Subscriptions(self._store.database)
        found = SubscriptionTasks(self._store.database).deleted_with_tasks(limit=self.page)
        return sum(cancel_tasks(self._store, subscriptions.deleted(each)) for each in found)


class RemoveDeleted(Duty):
    """Removes what is known of subscriptions that were deleted as long ago as failed tasks are kept.

    One that still has open tasks stays until they have ended: they are found by it, to be cancelled. Files stay.
    """

    name = "media removals"
    pause = 600.0
    page = 500  # items

    async def turn(self) -> int:
        seconds = self._settings.retention_failed_days * 86_400
        return await self._in_thread(Subscriptions(self._store.database).remove_deleted, seconds, limit=self.page)
