"""The page at /docs: each route with parameters, bodies, answers and a `curl` line; one file, no script or network.

`docs_page.html` is its template, `docs_page.css` its style.
"""

import base64
import hashlib
import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, Final, NamedTuple

from yak.server.http.openapi import PROBLEM_SCHEMA, TAGS, openapi_path, operation_id, tags_of
from yak.server.http.route import Body, Route, Schema
from yak.version import __version__

_FILE: Final = Path(__file__)
_STYLE: Final = _FILE.with_suffix(".css").read_text()
_STYLE_HASH: Final = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
CONTENT_SECURITY_POLICY: Final = (
    f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""The page may load and run nothing except this style."""
_PROBLEM: Final = {"error": "not-found", "message": "path not found: /nothing", "hint": "GET /docs lists all routes"}
_CODE: Final = re.compile("`([^`]+)`")
_INDENT_MAX: Final = 6
_PLAIN: Final = {"integer": "whole number", "number": "number", "string": "text", "boolean": "true or false"}
_VALUES_MAX: Final = 12
_STREAM: Final = "text/event-stream"


def page(routes: Sequence[Route], address: str) -> str:
    """The HTML; `address` is the base URL of the `curl` lines, like http://127.0.0.1:8080."""
    import jinja2

    environment = jinja2.Environment(autoescape=True)
    environment.filters |= {
        "breakable": _breakable,
        "code": lambda text: _CODE.sub(r"<code>\1</code>", escape(text)),
        "sentence": lambda text: text if text.endswith((".", "!", "?", ":")) else f"{text}.",
        "pretty": lambda value: value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False),
    }
    return environment.from_string(_FILE.with_suffix(".html").read_text()).render(
        address=address,
        curl_line=curl_line,
        fields=fields,
        forms_of=forms_of,
        operation_id=operation_id,
        parameters=_parameters,
        problem=_PROBLEM,
        problem_schema=PROBLEM_SCHEMA,
        sections=[(tag, [route for route in routes if route.tag == tag]) for tag in tags_of(routes)],
        style=_STYLE,
        tags=TAGS,
        type_text=type_text,
        version=__version__,
    )


def _breakable(path: str) -> str:
    """The path, which a narrow column breaks only between its parts."""
    return escape(openapi_path(path)).replace("/", "/<wbr>").replace("{", "<wbr>{").replace("_", "_<wbr>")


def _parameters(route: Route) -> "list[Field]":
    return [
        Field(0, each.name, type_text(each.schema), each.required or each.where == "path", each.summary, each.where)
        for each in route.parameters
    ]


# ------------------------------------------------------------------------------------------------ schemas as text


class Field(NamedTuple):
    """One line of a schema: a field, `depth` levels deep."""

    depth: int
    name: str
    type: str
    is_required: bool
    summary: str
    where: str = ""
    """Of a parameter: path or query."""


def fields(schema: Schema, depth: int = 0) -> Iterator[Field]:
    """The fields of an object, of a list's objects, or of each alternative; a field comes before those inside it."""
    for form in _forms(schema):
        yield from fields(form, depth)
    if isinstance(schema.get("items"), Mapping):
        yield from fields(schema["items"], depth)
    required = schema.get("required", ())
    for name, inner in schema.get("properties", {}).items():
        inner = inner if isinstance(inner, Mapping) else {}
        yield Field(depth, name, type_text(inner), name in required, str(inner.get("description", "")))
        if depth < _INDENT_MAX:
            yield from fields(inner, depth + 1)


def forms_of(schema: Schema) -> Sequence[Schema]:
    """The alternatives to document separately, if several have fields; otherwise the schema alone."""
    forms = [form for form in _forms(schema) if next(fields(form), None) is not None]
    return forms if len(forms) > 1 else [schema]


def _forms(schema: Schema) -> Sequence[Schema]:
    """The alternatives; none in a schema with a type, where `oneOf` and `anyOf` only combine required fields."""
    return () if "type" in schema else schema.get("oneOf") or schema.get("anyOf") or ()


def type_text(schema: Schema) -> str:
    """The type as text: `whole number, 0 to 2147483647`; `one of ok, unhealthy`; `list of objects`."""
    forms = _forms(schema)
    if forms:
        return " or ".join(dict.fromkeys(type_text(form) for form in forms))
    if "const" in schema:
        return _value(schema["const"])
    if "enum" in schema:
        values = schema["enum"]
        values = list({_value(each): each for each in values}.values())
        listed = ", ".join(map(_value, values[:_VALUES_MAX])) + (", …" if len(values) > _VALUES_MAX else "")
        return listed if len(values) == 1 else f"one of {listed}"
    kinds = schema.get("type", ())
    names = [kinds] if isinstance(kinds, str) else list(kinds)
    text = " or ".join(_kind_text(name, schema) for name in names) or "any JSON"
    bounds = _bounds(schema)
    default = f", else {_default(schema['default'])}" if "default" in schema else ""
    return text + (f", {bounds}" if bounds else "") + default


def _kind_text(kind: str, schema: Schema) -> str:
    if kind == "array":
        items = schema.get("items")
        inner = type_text(items) if isinstance(items, Mapping) else "any JSON"
        return "list of objects" if inner == "object" else f"list of {inner}"
    if kind == "object" and isinstance(schema.get("additionalProperties"), Mapping):
        return f"object of {type_text(schema['additionalProperties'])}"
    return _PLAIN.get(kind, kind)


def _bounds(schema: Schema) -> str:
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None:
        return f"{low} to {high}"
    if low is not None:
        return f"{low} or more"
    if high is not None:
        return f"{high} or less"
    longest = schema.get("maxLength")
    if longest is not None:
        return f"at most {longest} characters"
    most = schema.get("maxItems")
    return f"at most {most} of them" if most is not None else ""


def _default(value: Any) -> str:
    """Quoted if it would otherwise read as punctuation of the sentence."""
    return json.dumps(value) if isinstance(value, str) and not any(map(str.isalnum, value)) else _value(value)


def _value(value: Any) -> str:
    return value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)


# ------------------------------------------------------------------------------------------------------ curl lines


def curl_line(route: Route, address: str) -> str:
    """`curl -X POST http://127.0.0.1:8080/produce -d '{"topic": …}'`; `address` has no slash at its end."""
    arguments = ["curl"]
    if any(answer.media_type == _STREAM for answer in route.answers.values()):
        arguments.append("-N")
    if route.method != ("GET" if route.body is None else "POST"):  # curl's own choice otherwise
        arguments += ["-X", route.method]
    arguments.append(shlex.quote(_address(route, address)))
    if route.body is not None:
        arguments += _sent(route.body)
    return " ".join(arguments)


def _address(route: Route, address: str) -> str:
    """The URL, with a value for each parameter that it needs."""
    path, query = openapi_path(route.path), []
    for each in route.parameters:
        value = str(each.schema.get("minimum", "NAME"))
        if each.where == "path":
            path = path.replace(f"{{{each.name}}}", value)
        elif each.required:
            query.append(f"{each.name}={value}")
    return address + path + (f"?{'&'.join(query)}" if query else "")


def _sent(body: Body) -> list[str]:
    kind = ["-H", shlex.quote(f"content-type: {body.media_type}")]
    if "json" in body.media_type:
        return [*kind, "-d", shlex.quote(json.dumps(body.example, ensure_ascii=False))]
    return [*kind, "--data-binary", shlex.quote(body.example)]
