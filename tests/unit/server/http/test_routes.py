"""The table of all routes: whatever is added, it is described whole, guarded, and found."""

import re
from collections import Counter
from typing import Any

import jsonschema
import pytest
from starlette.routing import Match
from starlette.routing import Route as StarletteRoute

from tests.unit.server.http.rig import make_context
from yak.server.http import docs_page, openapi
from yak.server.http.app import by_path, make_app
from yak.server.http.route import Answer, Body, Parameter, Route
from yak.server.http.routes import ROUTES

ADDRESS = "http://127.0.0.1:8080"
every_route = pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
SAFE = {"GET", "HEAD"}


def test_every_tag_has_routes() -> None:
    assert set(openapi.TAGS) == {route.tag for route in ROUTES}


def test_no_route_is_there_twice() -> None:
    assert [each for each, count in Counter((route.method, route.path) for route in ROUTES).items() if count > 1] == []
    names = Counter(map(openapi.operation_id, ROUTES))
    assert [name for name, count in names.items() if count > 1] == []


@every_route
def test_a_route_is_described_whole(route: Route) -> None:
    assert 3 <= len(route.summary) <= 120
    assert "\n" not in route.summary
    assert route.tag in openapi.TAGS, "give the tag a sentence in openapi.TAGS"
    assert route.answers
    assert all(200 <= status < 600 for status in route.answers)
    assert any(status < 400 for status in route.answers)
    for status, answer in route.answers.items():
        assert answer.summary, status
        if answer.media_type == "application/json" and status not in {204, 302, 303, 304, 307, 308}:
            assert answer.schema is not None, f"the schema of {status} is missing"


@every_route
def test_parameters_match_the_path_and_have_summaries(route: Route) -> None:
    named = [each.name for each in route.parameters if each.where == "path"]
    assert sorted(named) == sorted(re.findall(r"{(\w+)", route.path))
    assert len(route.parameters) == len({(each.where, each.name) for each in route.parameters})
    for each in route.parameters:
        assert each.summary
        assert docs_page.type_text(each.schema) != "any JSON", f"{each.name} has no type"


@every_route
def test_route_that_changes_something_is_guarded(route: Route) -> None:
    assert route.method in SAFE or route.guard in {"change", "admin"}


@every_route
def test_schemas_are_schemas_and_examples_keep_to_them(route: Route) -> None:
    schemas: list[Any] = [each.schema for each in route.parameters]
    schemas += [answer.schema for answer in route.answers.values() if answer.schema is not None]
    if route.body is not None:
        schemas.append(route.body.schema)
        if "json" in route.body.media_type:
            assert route.body.example is not None, "a body needs an example"
            jsonschema.validate(route.body.example, dict(route.body.schema), jsonschema.Draft202012Validator)
    for schema in schemas:
        jsonschema.Draft202012Validator.check_schema(dict(schema))


@every_route
def test_a_path_leads_to_its_own_route(route: Route) -> None:
    """No route hides another: `/topics/{name}` does not take what is for `/topics/csv`."""
    table = by_path(ROUTES)
    routes = [StarletteRoute(path, _never, methods=sorted(methods)) for path, methods in table.items()]
    path = re.sub(r"{\w+(:\w+)?}", "7", route.path)
    scope = {"type": "http", "method": route.method, "path": path, "root_path": "", "headers": []}
    first = next(each for each in routes if each.matches(scope)[0] is Match.FULL)
    assert first.path == route.path


async def _never(_request: Any) -> Any:
    raise AssertionError


def made(method: str, path: str, **more: Any) -> Route:
    return Route(method, path, _never, "x", "T", **more)  # type: ignore[arg-type]


def test_routes_document_is_openapi_and_every_reference_resolves() -> None:
    document = openapi.document(ROUTES)
    assert document["openapi"] == "3.1.0"
    assert sum(map(len, document["paths"].values())) == len(ROUTES)
    for reference in re.findall(r"'\$ref': '#/(.*?)'", str(document)):
        found: Any = document
        for word in reference.split("/"):
            found = found[word]
    assert {each["name"] for each in document["tags"]} == {route.tag for route in ROUTES}
    assert all(each["description"] for each in document["tags"])
    for route in ROUTES:
        operation = document["paths"][openapi.openapi_path(route.path)][route.method.lower()]
        assert ("security" in operation) is (route.guard != "read")
        assert {"4XX", "5XX"} <= set(operation["responses"])


def test_the_page_needs_no_network_and_runs_nothing() -> None:
    page = docs_page.page(ROUTES, ADDRESS)
    addresses = set(re.findall(r"""(?:href|src|action|url)\s*[=(]\s*["']?([^"'> )]*)""", page))
    assert all(each.startswith(("#", "/")) and not each.startswith("//") for each in addresses), addresses
    assert not re.search(r"<(script|img|link|iframe|object|embed|form)\b|\bon\w+=|style=|@import|javascript:", page)
    assert "<!doctype html>" in page
    assert page.count("<article") == page.count("</article>") == len(ROUTES) + 1
    for route in ROUTES:
        assert f'id="{openapi.operation_id(route)}"' in page


def test_the_page_is_well_formed() -> None:
    from html.parser import HTMLParser

    void = {"meta", "link", "br", "hr", "img", "input", "wbr"}
    opened: list[str] = []
    ids: list[str] = []
    links: list[str] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            ids.extend(value for name, value in attrs if name == "id" and value)
            links.extend(value for name, value in attrs if name == "href" and value and value.startswith("#"))
            if tag not in void:
                opened.append(tag)

        def handle_endtag(self, tag: str) -> None:
            assert opened.pop() == tag

    Reader().feed(docs_page.page(ROUTES, ADDRESS))
    assert opened == []
    assert len(ids) == len(set(ids))
    assert {link[1:] for link in links} <= set(ids)


EVIL = '<script>alert("&")</script>'


def test_route_descriptions_are_rendered_as_text_and_not_as_html() -> None:
    schema = {"type": "object", "properties": {EVIL: {"enum": [EVIL], "description": EVIL}}}
    route = Route(
        "POST",
        "/x/{name}",
        _never,  # type: ignore[arg-type]
        EVIL,
        EVIL,
        parameters=(Parameter("name", {"type": "string", "default": EVIL}, EVIL, where="path"),),
        body=Body(schema, {EVIL: EVIL}),
        answers={200: Answer(EVIL, schema, EVIL)},
        description=EVIL,
    )
    page = docs_page.page((route,), f"http://{EVIL}")
    assert "<script" not in page


@pytest.mark.parametrize(
    ("route", "line"),
    [
        (made("GET", "/a"), f"curl {ADDRESS}/a"),
        (
            made(
                "GET",
                "/a/{name}",
                parameters=(
                    Parameter("name", {"type": "string"}, "x", where="path"),
                    Parameter("at", {"type": "integer", "minimum": 3}, "x", required=True),
                    Parameter("no", {"type": "string"}, "x"),
                ),
            ),
            f"curl '{ADDRESS}/a/NAME?at=3'",
        ),
        (
            made("POST", "/a", body=Body({}, {"it's": 1})),
            f"curl {ADDRESS}/a -H 'content-type: application/json' -d '{{\"it'\"'\"'s\": 1}}'",
        ),
        (made("POST", "/a"), f"curl -X POST {ADDRESS}/a"),
        (
            made("GET", "/a", body=Body({}, {})),
            f"curl -X GET {ADDRESS}/a -H 'content-type: application/json' -d '{{}}'",
        ),
        (made("DELETE", "/a"), f"curl -X DELETE {ADDRESS}/a"),
        (
            made("POST", "/a", body=Body({}, "a,b\n", "text/csv")),
            f"curl {ADDRESS}/a -H 'content-type: text/csv' --data-binary 'a,b\n'",
        ),
        (made("GET", "/a", answers={200: Answer("x", None, "text/event-stream")}), f"curl -N {ADDRESS}/a"),
    ],
)
def test_a_curl_line_is_what_a_shell_takes(route: Route, line: str) -> None:
    assert docs_page.curl_line(route, ADDRESS) == line


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({}, "any JSON"),
        ({"type": "integer", "minimum": 0, "maximum": 5}, "whole number, 0 to 5"),
        ({"type": "integer", "minimum": 1, "default": 7}, "whole number, 1 or more, else 7"),
        ({"type": ["string", "null"], "maxLength": 9}, "text or null, at most 9 characters"),
        ({"enum": ["all", -1]}, "one of all, -1"),
        ({"const": "x"}, "x"),
        ({"type": "array", "items": {"type": "object"}}, "list of objects"),
        ({"type": "array", "items": {"type": "string"}, "maxItems": 3}, "list of text, at most 3 of them"),
        (
            {"type": "array", "items": {"type": "string", "maxLength": 2}, "maxItems": 3},
            "list of text, at most 2 characters, at most 3 of them",
        ),
        ({"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}, "object"),
        ({"enum": ["1", 1, None]}, "one of 1, null"),
        ({"type": "string", "default": ","}, 'text, else ","'),
        ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, "text or whole number"),
        ({"type": "object", "additionalProperties": {"type": "string"}}, "object of text"),
    ],
)
def test_schema_as_text(schema: dict[str, Any], text: str) -> None:
    assert docs_page.type_text(schema) == text


def test_each_form_of_a_body_has_a_table_of_its_own() -> None:
    one = {"type": "object", "properties": {"a": {"type": "string"}}}
    body = Body({"oneOf": [one, {"type": "array", "items": one}]}, {"a": "b"})
    page = docs_page.page((made("POST", "/x", body=body),), ADDRESS)
    section = page.partition("<h4>Body")[2].partition("<h4>")[0]
    assert section.count("<table>") == 2
    assert ">object</p>" in section
    assert ">or list of objects</p>" in section


def test_text_in_backticks_is_code_and_paths_break_between_parts() -> None:
    route = Route("GET", "/a_b/{c}", _never, "What `x` <is>", "T")  # type: ignore[arg-type]
    page = docs_page.page((route,), ADDRESS)
    assert "<p>What <code>x</code> &lt;is&gt;.</p>" in page
    assert "/<wbr>a_<wbr>b/<wbr><wbr>{c}" in page
    assert "`" not in docs_page.page(ROUTES, ADDRESS)


def test_an_app_is_made_of_the_table() -> None:
    app = make_app(make_context())
    paths = {route.path for route in app.routes}  # type: ignore[attr-defined]
    assert paths == {"/favicon.ico", *(route.path for route in ROUTES)}


def test_two_routes_for_the_same_are_our_bug() -> None:
    with pytest.raises(AssertionError, match="two routes are GET /"):
        by_path([*ROUTES, *ROUTES])
