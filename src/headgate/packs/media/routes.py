"""All routes of the media pack."""

from headgate.packs.media import cookie_routes, requests, subscription_routes

routes = (*requests.routes, *subscription_routes.routes, *cookie_routes.routes)
