"""What a route is. One table of them drives dispatch, the OpenAPI document and the page at /docs."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from yak.server.http.context import Context

Schema: TypeAlias = Mapping[str, Any]
"""A JSON schema, as OpenAPI 3.1 has them."""
Handler: TypeAlias = "Callable[[Context, Request], Awaitable[Response]]"
Guard: TypeAlias = Literal["read", "change", "admin"]
"""Who may: everybody; who has the token, if there is one; who has the token, or without one this machine only."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter in the query or the path, for OpenAPI; handlers read and check it by `parameters`."""

    name: str
    schema: Schema
    summary: str
    required: bool = False
    where: Literal["query", "path"] = "query"


@dataclass(frozen=True, slots=True)
class Body:
    """What a request's body is."""

    schema: Schema
    example: Any = None
    media_type: str = "application/json"
    required: bool = True


@dataclass(frozen=True, slots=True)
class Answer:
    """One of the answers of a route; errors (`problems.Problem`) need not be named."""

    summary: str
    schema: Schema | None = None
    media_type: str = "application/json"
    also: tuple[str, ...] = ()
    """Other content types that it, and the errors of its route, come in for those who ask for them."""


@dataclass(frozen=True, slots=True)
class Route:
    """`GET /topics/{name}` and what answers it. `tag` is the heading it stands under; `guard` says who may."""

    method: str
    path: str
    handler: Handler
    summary: str
    tag: str
    guard: Guard = "read"
    parameters: tuple[Parameter, ...] = ()
    body: Body | None = None
    answers: Mapping[int, Answer] = field(default_factory=lambda: {200: Answer("done", {"type": "object"})})
    description: str = ""
