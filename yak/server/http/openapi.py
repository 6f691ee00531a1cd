"""The OpenAPI 3.1 document of the routes, for tools, for /docs, and for the tests of allowed and forbidden requests.

It is generated from the table of routes; this module adds only the meaning of the tags.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from yak.server.http.route import Answer, Body, Parameter, Route
from yak.version import __version__

TAGS: Final[Mapping[str, str]] = {
    "Health": "Health checks for people, load balancers and supervisors.",
    "Data": "Produce and consume records as JSON, as a live stream or from CSV; topics and partition leaders.",
    "Consumer groups": "Consumer groups, as in Confluent's REST proxy v2.",
    "Metadata service: brokers": "Register, list and unregister brokers.",
    "Metadata service: topics, partitions, producers": "Topics, partitions and producer ids by the metadata service's names.",
    "Metadata service: changes and history": "Metadata changes since a time, the metadata log, and earlier cluster states.",
    "Administration": "Cluster state, live events, failover and shutdown.",
    "Metrics": "Metrics for Prometheus.",
    "Documentation": "What there is.",
}
"""The headings of routes, in the order of the page; other tags come after them."""

PROBLEM_SCHEMA: Final = {
    "type": "object",
    "required": ["error", "message", "hint"],
    "properties": {
        "error": {
            "type": "string",
            "pattern": "^[a-z0-9]+(-[a-z0-9]+)*$",
            "description": "a stable name; a Kafka error has Kafka's name",
        },
        "message": {"type": "string", "description": "what happened"},
        "hint": {"type": "string", "description": "a remedy; may be empty"},
    },
}
_JSON: Final = "application/json"
_ERRORS: Final = {
    "401": ("LoginNeeded", "The token or the login is missing or wrong (only where the broker requires one)"),
    "403": ("Refused", "Forbidden: a cross-site request, or administration from another machine"),
    "4XX": ("Mistake", "Client error"),
    "5XX": ("Trouble", "The broker or the cluster cannot serve the request now"),
}
_PATH_PARAMETER: Final = re.compile(r"{(\w+)(?::\w+)?}")


def tags_of(routes: Sequence[Route]) -> list[str]:
    """The tags of these routes, in the order of the page."""
    used = dict.fromkeys(route.tag for route in routes)
    return [tag for tag in TAGS if tag in used] + [tag for tag in used if tag not in TAGS]


def document(routes: Sequence[Route]) -> dict[str, Any]:
    """The document as plain values; its server is the one that serves it."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(openapi_path(route.path), {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "YAK over HTTP",
            "version": __version__,
            "summary": "Health, data, metadata, administration, events and metrics of a YAK broker.",
            "description": "Any broker answers any request. Errors are JSON: a name, a message, and a remedy.",
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "servers": [{"url": "/"}],
        "tags": [{"name": tag, "description": TAGS.get(tag, "")} for tag in tags_of(routes)],
        "paths": paths,
        "components": {
            "schemas": {"Problem": PROBLEM_SCHEMA},
            "responses": {name: _problem_answer(text) for name, text in _ERRORS.values()},
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "The broker's YAK_HTTP_TOKEN; not needed if it is not set.",
                },
                "login": {
                    "type": "http",
                    "scheme": "basic",
                    "description": "A user of the cluster; needed by every request if yak.http.authentication is basic.",
                },
            },
        },
    }


def openapi_path(path: str) -> str:
    """A route's path without Starlette's converters: `/f/{rest:path}` becomes `/f/{rest}`."""
    return _PATH_PARAMETER.sub(r"{\1}", path)


def operation_id(route: Route) -> str:
    """`get-topics-name`: derived from method and path, so that it stays the same."""
    parts = re.findall(r"[A-Za-z0-9]+", openapi_path(route.path))
    return "-".join([route.method.lower(), *(parts or ["root"])])


def _operation(route: Route) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": operation_id(route),
        "tags": [route.tag],
        "summary": route.summary,
        "parameters": [_parameter(each) for each in route.parameters],
        "responses": _answers(route),
    }
    if route.description:
        operation["description"] = route.description
    if route.body is not None:
        operation["requestBody"] = _body(route.body)
    if route.guard != "read":
        operation["security"] = [{"token": []}, {"login": []}, {}]
    return operation


def _parameter(parameter: Parameter) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": parameter.where,
        "required": parameter.required or parameter.where == "path",
        "description": parameter.summary,
        "schema": dict(parameter.schema),
    }


def _body(body: Body) -> dict[str, Any]:
    content: dict[str, Any] = {"schema": dict(body.schema)}
    if body.example is not None:
        content["example"] = body.example
    return {"required": body.required, "content": {body.media_type: content}}


def _answers(route: Route) -> dict[str, Any]:
    answers = {str(status): _answer(answer) for status, answer in sorted(route.answers.items())}
    # A route of another protocol answers errors in that protocol's JSON media type too.
    spoken = [kind for each in route.answers.values() for kind in (each.media_type, *each.also)]
    kinds = sorted({_JSON, *(kind for kind in spoken if "+json" in kind)})
    for status, (name, text) in _ERRORS.items():
        is_of_changes = status == "403" or (status == "401" and route.is_open)
        if status in answers or (is_of_changes and route.guard == "read"):
            continue
        if len(kinds) == 1:
            answers[status] = {"$ref": f"#/components/responses/{name}"}
        else:
            answers[status] = _problem_answer(text, kinds)
    return answers


def _answer(answer: Answer) -> dict[str, Any]:
    content: dict[str, Any] = {"description": answer.summary}
    if answer.schema is not None:
        content["content"] = {kind: {"schema": dict(answer.schema)} for kind in (answer.media_type, *answer.also)}
    elif answer.media_type != _JSON:
        content["content"] = {answer.media_type: {}}
    return content


def _problem_answer(description: str, kinds: Sequence[str] = (_JSON,)) -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/Problem"}
    return {"description": description, "content": {kind: {"schema": schema} for kind in kinds}}
