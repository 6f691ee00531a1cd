"""JSON schemas as English text for /docs."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from yak.server.http.route import Schema

_INDENT_MAX: Final = 6
_PLAIN: Final = {"integer": "whole number", "number": "number", "string": "text", "boolean": "true or false"}
_VALUES_MAX: Final = 12


class Field(NamedTuple):
    """One line of a schema: a field, `depth` levels deep."""

    depth: int
    name: str
    words: str
    is_required: bool
    summary: str


def fields(schema: Schema, depth: int = 0) -> Iterator[Field]:
    """The fields of an object, of a list's objects, or of each alternative; a field comes before those inside it."""
    for form in _forms(schema):
        yield from fields(form, depth)
    if isinstance(schema.get("items"), Mapping):
        yield from fields(schema["items"], depth)
    required = schema.get("required", ())
    for name, inner in schema.get("properties", {}).items():
        inner = inner if isinstance(inner, Mapping) else {}
        yield Field(depth, name, type_words(inner), name in required, str(inner.get("description", "")))
        if depth < _INDENT_MAX:
            yield from fields(inner, depth + 1)


def forms_of(schema: Schema) -> Sequence[Schema]:
    """The alternatives to document separately, if several have fields; otherwise the schema alone."""
    forms = [form for form in _forms(schema) if next(fields(form), None) is not None]
    return forms if len(forms) > 1 else [schema]


def _forms(schema: Schema) -> Sequence[Schema]:
    """The alternatives; none in a schema with a type, where `oneOf` and `anyOf` only combine required fields."""
    return () if "type" in schema else schema.get("oneOf") or schema.get("anyOf") or ()


def type_words(schema: Schema) -> str:
    """The type as text: `whole number, 0 to 2147483647`; `one of ok, unhealthy`; `list of objects`."""
    forms = _forms(schema)
    if forms:
        return " or ".join(dict.fromkeys(type_words(form) for form in forms))
    if "const" in schema:
        return _value(schema["const"])
    if "enum" in schema:
        values = schema["enum"]
        values = list({_value(each): each for each in values}.values())
        shown = ", ".join(map(_value, values[:_VALUES_MAX])) + (", …" if len(values) > _VALUES_MAX else "")
        return shown if len(values) == 1 else f"one of {shown}"
    kinds = schema.get("type", ())
    names = [kinds] if isinstance(kinds, str) else list(kinds)
    words = " or ".join(_kind_words(name, schema) for name in names) or "any JSON"
    bounds = _bounds(schema)
    default = f", else {_default(schema['default'])}" if "default" in schema else ""
    return words + (f", {bounds}" if bounds else "") + default


def sample(schema: Schema) -> Any:
    """A readable value that the schema allows, for a command line."""
    for key in ("example", "const", "default"):
        if key in schema:
            return schema[key]
    for key in ("examples", "enum"):
        if schema.get(key):
            return schema[key][0]
    forms = _forms(schema)
    if forms:
        return sample(forms[0])
    kind = schema.get("type")
    kind = kind if isinstance(kind, str) or not kind else kind[0]
    if kind in {"integer", "number"}:
        return schema.get("minimum", 0)
    return {"boolean": True, "array": [], "object": {}, "null": None}.get(str(kind), "NAME")


def _kind_words(kind: str, schema: Schema) -> str:
    if kind == "array":
        items = schema.get("items")
        inner = type_words(items) if isinstance(items, Mapping) else "any JSON"
        return "list of objects" if inner == "object" else f"list of {inner}"
    if kind == "object" and isinstance(schema.get("additionalProperties"), Mapping):
        return f"object of {type_words(schema['additionalProperties'])}"
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
    """Quoted if it would otherwise look like punctuation of the sentence."""
    return json.dumps(value) if isinstance(value, str) and not any(map(str.isalnum, value)) else _value(value)


def _value(value: Any) -> str:
    return value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)
