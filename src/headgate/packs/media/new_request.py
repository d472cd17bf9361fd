"""A request as the task that it becomes: its arguments, and the lane that goes with them."""

from typing import Any

from headgate.packs import DEFAULT_PRIORITY, NewTask
from headgate.packs.media.lanes import lane_for
from headgate.packs.web import text_of


def new_request(
    type_code: str,
    tenant_id: int,
    *,
    requires_cookie: bool,
    ua_profile: str | None = None,
    priority: int = DEFAULT_PRIORITY,
    unique_key: str | None = None,
    max_error_count: int | None = None,
    **arguments: Any,
) -> NewTask:
    """With a cookie, a request takes the cookie's lane and always the same profile."""
    arguments |= {"requires_cookie": requires_cookie, "ua_profile": "desktop" if requires_cookie else ua_profile}
    return NewTask(
        type=type_code,
        ext=text_of(arguments),
        tenant_id=tenant_id,
        lane=lane_for(requires_cookie),
        priority=priority,
        unique_key=unique_key,
        max_error_count=max_error_count,
    )
