"""The table of all routes, from the tuple `ROUTES` of each file here."""

from yak.server.http.route import Route
from yak.server.http.routes import (
    cluster,
    consume,
    consumers,
    csv_upload,
    documentation,
    events,
    failover,
    groups,
    health,
    metadata_brokers,
    metadata_feeds,
    metadata_topics,
    metrics,
    partitions,
    produce,
    quorum,
    stream,
    topics,
)

ROUTES: tuple[Route, ...] = (
    *cluster.ROUTES,
    *consume.ROUTES,
    *consumers.ROUTES,
    *csv_upload.ROUTES,
    *documentation.ROUTES,
    *events.ROUTES,
    *failover.ROUTES,
    *groups.ROUTES,
    *health.ROUTES,
    *metadata_brokers.ROUTES,
    *metadata_feeds.ROUTES,
    *metadata_topics.ROUTES,
    *metrics.ROUTES,
    *partitions.ROUTES,
    *produce.ROUTES,
    *quorum.ROUTES,
    *stream.ROUTES,
    *topics.ROUTES,
)
