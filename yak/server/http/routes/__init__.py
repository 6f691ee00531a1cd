"""All routes. Each file here has a tuple `ROUTES`; this is the one place that knows the files."""

from yak.server.http.route import Route
from yak.server.http.routes import consumers, health

ROUTES: tuple[Route, ...] = (
    *consumers.ROUTES,
    *health.ROUTES,
)
