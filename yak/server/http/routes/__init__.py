"""All routes. Each file here has a tuple `ROUTES`; this is the one place that knows the files."""

from yak.server.http.route import Route
from yak.server.http.routes import cluster, events, failover, groups, health, partitions

ROUTES: tuple[Route, ...] = (
    *cluster.ROUTES,
    *events.ROUTES,
    *failover.ROUTES,
    *groups.ROUTES,
    *health.ROUTES,
    *partitions.ROUTES,
)
