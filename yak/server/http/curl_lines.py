"""The `curl` line of a route, from its required parameters and its example, quoted for a shell."""

import json
import shlex
from typing import Final
from urllib.parse import quote, urlencode

from yak.server.http.openapi import path_names, shown_path
from yak.server.http.route import Body, Route
from yak.server.http.schema_text import sample

_STREAM: Final = "text/event-stream"
_SAFE_IN_QUERY: Final = ",:*"


def curl_line(route: Route, address: str) -> str:
    """`curl -X POST http://127.0.0.1:8080/produce -d '{"topic": …}'`; `address` has no slash at its end."""
    words = ["curl"]
    if any(answer.media_type == _STREAM for answer in route.answers.values()):
        words.append("-N")
    if route.method == "HEAD":
        words.append("-I")
    elif route.method != ("GET" if route.body is None else "POST"):  # curl's own choice otherwise
        words += ["-X", route.method]
    words.append(shlex.quote(_address(route, address)))
    if route.body is not None:
        words += _sent(route.body)
    return " ".join(words)


def _address(route: Route, address: str) -> str:
    path, query = shown_path(route.path), {}
    samples = {(each.where, each.name): sample(each.schema) for each in route.parameters}
    for name in path_names(route.path):
        path = path.replace(f"{{{name}}}", quote(_text(samples.get(("path", name), name.upper()))))
    for each in route.parameters:
        if each.where == "query" and each.required:
            query[each.name] = _text(samples["query", each.name])
    return address + path + (f"?{urlencode(query, safe=_SAFE_IN_QUERY)}" if query else "")


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _sent(body: Body) -> list[str]:
    kind = ["-H", shlex.quote(f"content-type: {body.media_type}")]
    if "json" in body.media_type:
        example = sample(body.schema) if body.example is None else body.example
        return [*kind, "-d", shlex.quote(json.dumps(example, ensure_ascii=False))]
    if isinstance(body.example, str):
        return [*kind, "--data-binary", shlex.quote(body.example)]
    return [*kind, "--data-binary", "@FILE"]
