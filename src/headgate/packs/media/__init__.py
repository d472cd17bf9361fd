"""The media pack: the request queue, its lanes, the types of its requests, and those of the upkeep around them."""

from headgate.packs import Pack, Page
from headgate.packs.media.lanes import LANES
from headgate.packs.media.types import SUBSCRIPTION, TYPES

PACK = Pack(
    name="media",
    types=TYPES,
    lanes=LANES,
    fields=(SUBSCRIPTION,),
    pages=(Page("Request queue", "/queue", moved_from="/static/queue_admin.html"),),
    migrations=__name__,
    routes=f"{__name__}.requests:routes",
)
