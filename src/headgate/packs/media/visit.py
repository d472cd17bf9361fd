"""One task's visit to a site: in its turn, with the policy's manners, and with the tenant's cookie if one is wanted."""

import functools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Literal, ParamSpec

from headgate.packs import Fatal, NotFound, Snooze, context, read_settings
from headgate.packs.media.cookies import Cookie, Cookies
from headgate.packs.media.errors import RiskControl, blames_cookie
from headgate.packs.media.policy import Command, Request, RequestPolicy
from headgate.packs.media.settings import MediaSettings
from headgate.packs.media.subscriptions import Subscription, Subscriptions
from headgate.packs.media.tasks import execution, tasks
from headgate.packs.media.ytdlp import Take, run_ytdlp

P = ParamSpec("P")
Profile = Literal["desktop", "mobile", "alt"]
YT_DLP = "yt-dlp"
DISK_WRITER = "disk-writer"
AGAIN_SECONDS = 1.0


class NoTurn(Exception):
    """Other tasks ran yt-dlp for as long as this one may wait."""


def takes_turns(handler: Callable[P, Any]) -> Callable[P, Any]:
    """A handler that runs again a little later when its turn does not come: nothing failed, a download takes long."""

    @functools.wraps(handler)
    def run(*args: P.args, **kwargs: P.kwargs) -> Any:
        try:
            return handler(*args, **kwargs)
        except NoTurn:
            return Snooze(AGAIN_SECONDS)

    return run


class Visit:
    """What the running task asks of a site. Each try of a task is another turn, and so takes another profile."""

    def __init__(self, url: str, requires_cookie: bool | None, ua_profile: Profile | None) -> None:
        settings = read_settings(MediaSettings)
        self.policy = RequestPolicy(settings)
        self.request = Request(url, bool(requires_cookie), ua_profile, context().task_id + context().attempt)
        self._cookies = Cookies(tasks.store.database, tasks.seals)
        self._failure_limit = settings.cookie_failure_limit
        self._turn_seconds = settings.yt_dlp_turn_seconds

    def run(self, command: Command, take: Take, *, in_turn: Callable[[], None] | None = None) -> None:
        """Run a command of yt-dlp, one task at a time; `NoTurn` if other tasks run theirs for too long.

        One that writes into the library says what to do there first, `in_turn` too.
        """
        cookie = self._cookie()
        content = None if cookie is None else self._cookies.content(cookie)
        with self._turn(*([DISK_WRITER] if in_turn else []), YT_DLP):
            if in_turn:
                in_turn()
            try:
                run_ytdlp(command, take, content)
            except Exception as error:
                self._count_failure(cookie, error)
                if self.request.requires_cookie and blames_cookie(error):
                    error.args = (f"{self._cookie_problem(cookie)}. {error}",)
                raise
        if cookie is not None:
            self._cookies.count_success(cookie, **execution())

    @contextmanager
    def _turn(self, *resources: str) -> Iterator[None]:
        with ExitStack() as held:
            for name in resources:
                try:
                    held.enter_context(context().hold(name, timeout_seconds=self._turn_seconds))
                except TimeoutError:
                    raise NoTurn from None
            yield

    def _cookie(self) -> Cookie | None:
        if not self.request.requires_cookie:
            return None
        cookie = self._cookies.cookie_for(context().tenant_id, self.request.url)
        if cookie is not None and cookie.disabled_at is not None:
            context().log(f"the cookie of {cookie.site} is disabled: asking without it", "warning")
            return None
        return cookie

    def _cookie_problem(self, used: Cookie | None) -> str:
        """What is wrong with the cookie of a site that refused a request; never its content."""
        cookie = self._cookies.cookie_for(context().tenant_id, self.request.url)
        if cookie is None:
            return "there is no cookie for this site: store one with `headgate cookies put`"
        if used is None:
            return f"the cookie of {cookie.site} is disabled: store a new one, or enable it"
        now = " and it is disabled now" if cookie.disabled_at is not None else ""
        return f"the site refused the cookie of {used.site}{now}: store a new one"

    def _count_failure(self, cookie: Cookie | None, error: Exception) -> None:
        if isinstance(error, RiskControl):
            context().log("the site asks for fewer requests (412, risk control)", "warning")
            if cookie is not None:
                self._cookies.warn(cookie, **execution())
        elif cookie is not None and blames_cookie(error):
            error_class = type(error).__name__
            now = self._cookies.count_failure(cookie, error_class, limit=self._failure_limit, **execution())
            if now is not None and now.disabled_at is not None:
                context().log(f"the cookie of {cookie.site} failed too often and is disabled", "warning")


def subscription_of(subscription_id: int | None) -> Subscription:
    """The subscription that a task is for; `Fatal` if it is not there."""
    if subscription_id is None:
        raise Fatal("give a url or a subscription_id")
    try:
        return Subscriptions(tasks.store.database).get(subscription_id, context().tenant_id)
    except NotFound as error:
        raise Fatal(str(error)) from None
