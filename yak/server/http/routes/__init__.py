"""All routes. Each file here has a tuple `ROUTES`; this is the one place that knows the files."""

from yak.server.http.route import Route
from yak.server.http.routes import health, metadata_brokers, metadata_feeds, metadata_topics

ROUTES: tuple[Route, ...] = (
    *health.ROUTES,
    *metadata_brokers.ROUTES,
    *metadata_feeds.ROUTES,
    *metadata_topics.ROUTES,
)
