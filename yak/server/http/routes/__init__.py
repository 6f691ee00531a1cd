"""All routes. Each file here has a tuple `ROUTES`; this is the one place that knows the files."""

from yak.server.http.route import Route
from yak.server.http.routes import (
    consume,
    csv_upload,
    health,
    leader,
    metadata_brokers,
    metadata_feeds,
    metadata_topics,
    metrics,
    produce,
    stream,
    topics,
)

ROUTES: tuple[Route, ...] = (
    *consume.ROUTES,
    *csv_upload.ROUTES,
    *health.ROUTES,
    *leader.ROUTES,
    *metadata_brokers.ROUTES,
    *metadata_feeds.ROUTES,
    *metadata_topics.ROUTES,
    *metrics.ROUTES,
    *produce.ROUTES,
    *stream.ROUTES,
    *topics.ROUTES,
)
