"""The answers of `/health`, `/health/live`, `/health/ready` as status and bytes, for routes and the fast path."""

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from yak.views.health import Health, HealthView

if TYPE_CHECKING:
    from yak.server.http.context import Context

_FRESH_MS: Final = 10
"""An answer is reused for this long: at 1,500 requests a second, computing it cost more than all the rest."""


class HealthAnswers:
    """Health answers by path; each is computed at most every `_FRESH_MS`."""

    def __init__(self, context: "Context") -> None:
        self._shell = context.shell
        self._view = HealthView(context.broker)
        self._made: dict[str, tuple[int, tuple[int, bytes]]] = {}

    def get(self, path: str) -> tuple[int, bytes]:
        """Status and body. Raises KeyError for a path outside `PATHS`."""
        now_ms = self._shell.clock.now_ms()
        made_ms, answer = self._made.get(path, (-_FRESH_MS, (0, b"")))
        if now_ms - made_ms >= _FRESH_MS:
            answer = PATHS[path](self._view)
            self._made[path] = (now_ms, answer)
        return answer


def _all(view: HealthView) -> tuple[int, bytes]:
    found = view.look()
    return 503 if found.reasons else 200, _json(found.as_json())


def _live(_view: HealthView) -> tuple[int, bytes]:
    return 200, _json({"status": "ok", "reasons": []})


def _ready(view: HealthView) -> tuple[int, bytes]:
    found: Health = view.look()
    body = {"status": "ok" if found.is_ready else "unhealthy", "reasons": found.own_reasons}
    return 200 if found.is_ready else 503, _json(body)


def _json(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode() + b"\n"


PATHS: Final[Mapping[str, Callable[[HealthView], tuple[int, bytes]]]] = {
    "/health": _all,
    "/health/live": _live,
    "/health/ready": _ready,
}
