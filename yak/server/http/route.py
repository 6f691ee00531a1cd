"""The description of a route. One table drives dispatch, the OpenAPI document and the page at /docs."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

from yak.acls.bindings import Operation

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from yak.server.http.context import Context

Schema: TypeAlias = Mapping[str, Any]
"""A JSON schema of OpenAPI 3.1."""
Handler: TypeAlias = "Callable[[Context, Request], Awaitable[Response]]"
_H = TypeVar("_H", bound="Handler")
Guard: TypeAlias = Literal["read", "change", "admin"]
"""The access rule: `read` for all clients; `change` needs the token, if set; `admin` without one is local only."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A query or path parameter, for OpenAPI; handlers read and check it with functions of `bodies`."""

    name: str
    schema: Schema
    summary: str
    required: bool = False
    where: Literal["query", "path"] = "query"


@dataclass(frozen=True, slots=True)
class Body:
    """A request body, for OpenAPI."""

    schema: Schema
    example: Any = None
    media_type: str = "application/json"
    required: bool = True


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer of a route; errors (`problems.Problem`) need not be listed."""

    summary: str
    schema: Schema | None = None
    media_type: str = "application/json"
    also: tuple[str, ...] = ()
    """Further content types of this answer and of the route's errors, if the client accepts them."""


@dataclass(frozen=True, slots=True)
class Route:
    """A route like `GET /topics/{name}`; `tag` is its heading in /docs, `guard` its access rule."""

    method: str
    path: str
    handler: Handler
    summary: str
    tag: str
    guard: Guard = "read"
    operation: Operation | None = None
    """The operation that the request is; None: DESCRIBE of reads, ALTER of others (`access_of`)."""
    is_about_cluster: bool = False
    """Whether its answer is about more than the topic in its query, so that it needs rights on the cluster."""
    is_open: bool = False
    """Whether it needs no login, whatever `yak.http.authentication` says."""
    parameters: tuple[Parameter, ...] = ()
    body: Body | None = None
    answers: Mapping[int, Answer] = field(default_factory=lambda: {200: Answer("done", {"type": "object"})})
    description: str = ""
    any_query: bool = False
    """Whether the handler gets query parameters that are not listed."""

    @property
    def query_names(self) -> list[str]:
        """The listed query parameters."""
        return [each.name for each in self.parameters if each.where == "query"]


class Routes(list[Route]):
    """The routes of one heading in /docs; `add` decorates the handler of each."""

    def __init__(self, tag: str) -> None:
        super().__init__()
        self._tag = tag

    def add(self, endpoint: str, summary: str, **description: Any) -> Callable[[_H], _H]:
        """`endpoint` is method and path, as `GET /topics`; `description` has further fields of `Route`."""

        def decorate(handler: _H) -> _H:
            method, path = endpoint.split(" ")
            self.append(Route(method, path, handler, summary, self._tag, **description))
            return handler

        return decorate
