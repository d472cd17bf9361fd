"""The media pack: the request queue, its lanes, the types of its requests, and those of the upkeep around them."""

from headgate.packs import Pack, Page, Resource
from headgate.packs.media.cookie_file import sweep
from headgate.packs.media.lanes import LANES
from headgate.packs.media.settings import MediaSettings
from headgate.packs.media.types import SUBSCRIPTION, TYPES, tuned

PACK = Pack(
    name="media",
    types=TYPES,
    lanes=LANES,
    resources=(Resource("yt-dlp", 1),),
    settings=MediaSettings,
    tune=tuned,
    at_start=sweep,
    fields=(SUBSCRIPTION,),
    pages=(
        Page("Subscriptions", "/subscriptions"),
        Page("Request queue", "/queue", moved_from="/static/queue_admin.html"),
    ),
    migrations=__name__,
    handlers=f"{__name__}.handlers:tasks",
    routes=f"{__name__}.routes:routes",
    duties=f"{__name__}.duties:DUTIES",
    commands=f"{__name__}.cookie_commands:COMMANDS",
)
