"""All routes. Each file here has a tuple `ROUTES`; this is the one place that knows the files."""

from yak.server.http.route import Route
from yak.server.http.routes import health, metrics

ROUTES: tuple[Route, ...] = (*health.ROUTES, *metrics.ROUTES)
