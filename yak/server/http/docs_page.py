"""The page at /docs: each route with parameters, bodies, answers and a `curl` line; one file, no script or network."""

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from html import escape
from typing import Any, Final

from yak.server.http.curl_lines import curl_line
from yak.server.http.docs_style import STYLE
from yak.server.http.openapi import PROBLEM_SCHEMA, TAGS, operation_id, shown_path, tags_of
from yak.server.http.route import Answer, Body, Parameter, Route, Schema
from yak.server.http.schema_text import fields, forms_of, type_words
from yak.version import __version__

_STYLE_HASH: Final = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
CONTENT_SECURITY_POLICY: Final = (
    f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""The page may load and run nothing except this style."""
_WHO: Final = {"change": "token, if YAK_HTTP_TOKEN is set", "admin": "token; without YAK_HTTP_TOKEN: this machine only"}

_CODE: Final = re.compile("`([^`]+)`")
_MADE_OF: Final = (
    'This page is generated from the same table as <a href="/openapi.json">/openapi.json</a> and the routes themselves.'
)


def page(routes: Sequence[Route], address: str) -> str:
    """The HTML; `address` is the base URL of the `curl` lines, like http://127.0.0.1:8080."""
    sections = [(tag, [route for route in routes if route.tag == tag]) for tag in tags_of(routes)]
    return "".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n',
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n',
            f"<title>YAK over HTTP</title>\n<style>{STYLE}</style>\n</head>\n<body>\n",
            f'<div class="all">\n{_contents(sections)}\n<main>\n{_head(address)}\n',
            *(_section(tag, found, address) for tag, found in sections),
            _errors(),
            f"<footer>YAK {escape(__version__)}. {_MADE_OF}</footer>\n</main>\n</div>\n</body>\n</html>\n",
        ]
    )


def _head(address: str) -> str:
    return (
        "<h1>YAK over HTTP</h1>\n"
        f"<p>This broker answers at <code>{escape(address)}</code>. Any broker of the cluster answers any request. "
        "Bodies are JSON in UTF-8 unless stated otherwise.</p>\n"
        "<p>If <code>YAK_HTTP_TOKEN</code> is set on the broker, requests that change something need "
        "<code>-H 'Authorization: Bearer TOKEN'</code>.</p>"
    )


def _contents(sections: Sequence[tuple[str, Sequence[Route]]]) -> str:
    parts = ['<nav aria-label="Routes"><strong>YAK over HTTP</strong>']
    for tag, routes in sections:
        rows = "".join(
            f'<li>{_method(route.method)}<a href="#{operation_id(route)}">{_path(route)}</a></li>' for route in routes
        )
        parts.append(f"<h2>{escape(tag)}</h2><ul>{rows}</ul>")
    parts.append('<h2>All</h2><ul><li><a href="#errors">Errors</a></li></ul></nav>')
    return "".join(parts)


def _section(tag: str, routes: Sequence[Route], address: str) -> str:
    words = TAGS.get(tag, "")
    return (
        f"<section>\n<h2>{escape(tag)}</h2>\n<p>{escape(words)}</p>\n"
        + "".join(f"{_article(route, address)}\n" for route in routes)
        + "</section>\n"
    )


def _article(route: Route, address: str) -> str:
    who = f'<span class="who">{_WHO[route.guard]}</span>' if route.guard in _WHO else ""
    parts = [
        f'<article id="{operation_id(route)}">',
        f"<h3>{_method(route.method)}<code>{_path(route)}</code>{who}</h3>",
        f"<p>{_words(_sentence(route.summary))}</p>",
    ]
    if route.description:
        parts.append(f'<p class="soft">{_words(_sentence(route.description))}</p>')
    parts.append(f'<pre class="curl">{escape(curl_line(route, address))}</pre>')
    if route.parameters:
        parts.append(_parameters(route.parameters))
    if route.body is not None:
        parts.append(_body(route.body))
    parts.append("<h4>Answers</h4>")
    parts += [_answer(status, answer) for status, answer in sorted(route.answers.items())]
    return "\n".join([*parts, "</article>"])


def _parameters(parameters: Sequence[Parameter]) -> str:
    rows = "".join(
        _row(0, each.name, type_words(each.schema), each.required or each.where == "path", each.summary, each.where)
        for each in parameters
    )
    return f"<h4>Parameters</h4>\n{_table(rows, 'Where')}"


def _body(body: Body) -> str:
    optional = "" if body.required else ", or none"
    shown = f"<h4>Body: {escape(body.media_type)}{optional}</h4>\n{_schema(body.schema)}"
    if body.example is not None:
        shown += f"\n<pre>{escape(_pretty(body.example))}</pre>"
    return shown


def _answer(status: int, answer: Answer) -> str:
    kind = "" if "json" in answer.media_type else f' <span class="soft">{escape(answer.media_type)}</span>'
    line = f"<strong>{status}</strong> {_words(answer.summary)}{kind}"
    if answer.schema is None or not list(fields(answer.schema)):
        return f"<p>{line}</p>"
    return f"<details>\n<summary>{line}</summary>\n{_schema(answer.schema)}\n</details>"


def _schema(schema: Schema) -> str:
    return "\n".join(_form(form, "or " if place else "") for place, form in enumerate(forms_of(schema)))


def _form(schema: Schema, before: str) -> str:
    rows = "".join(_row(each.depth, each.name, each.words, each.is_required, each.summary) for each in fields(schema))
    words = f'<p class="soft{" form" if before else ""}">{before}{escape(type_words(schema))}</p>'
    return words + (f"\n{_table(rows)}" if rows else "")


def _errors() -> str:
    example = {"error": "not-found", "message": "path not found: /nothing", "hint": "GET /docs lists all routes"}
    return (
        '<section id="errors">\n<h2>Errors</h2>\n<p>Every error has this form. 4xx: client error. '
        "5xx: the broker or the cluster cannot serve the request now.</p>\n"
        f"<article>\n{_schema(PROBLEM_SCHEMA)}\n<pre>{escape(_pretty(example))}</pre>\n</article>\n</section>\n"
    )


def _table(rows: str, more: str = "") -> str:
    where = f"<th>{more}</th>" if more else ""
    head = f"<thead><tr><th>Name</th>{where}<th>What it is</th><th>Meaning</th></tr></thead>"
    return f'<div class="wide"><table>{head}<tbody>{rows}</tbody></table></div>'


def _row(depth: int, name: str, words: str, is_required: bool, summary: str, where: str = "") -> str:
    must = '<span class="must" title="required">*</span>' if is_required else ""
    level = f' class="d{min(depth, 6)}"' if depth else ""
    place = f"<td>{where}</td>" if where else ""
    return (
        f"<tr><td{level}><code>{escape(name)}</code>{must}</td>{place}"
        f"<td>{escape(words)}</td><td>{_words(summary)}</td></tr>"
    )


def _method(method: str) -> str:
    return f'<span class="m {method.lower()}">{escape(method)}</span>'


def _path(route: Route) -> str:
    """The path, which a narrow column breaks only between its words."""
    return escape(shown_path(route.path)).replace("/", "/<wbr>").replace("{", "<wbr>{").replace("_", "_<wbr>")


def _words(text: str) -> str:
    """HTML in which text between backquotes is code."""
    return _CODE.sub(r"<code>\1</code>", escape(text))


def _sentence(text: str) -> str:
    text = text.strip()
    return text if text.endswith((".", "!", "?", ":")) else f"{text}."


def _pretty(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
