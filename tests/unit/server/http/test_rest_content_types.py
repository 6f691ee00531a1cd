"""Accept and Content-Type of /consumers."""

import pytest
from starlette.requests import Request

from tests.unit.server.http.rig import make_request
from yak.server.http.consumers.bodies import V2, answer_type, check_body_type, embedded, records_type
from yak.server.http.problems import Problem


def request_with(**headers: str) -> Request:
    return make_request(headers={name.replace("_", "-"): value for name, value in headers.items()})


@pytest.mark.parametrize(
    ("accept", "given"),
    [
        (None, V2),
        ("*/*", V2),
        ("application/*", V2),
        (V2, V2),
        ("application/json", "application/json"),
        ("APPLICATION/JSON; charset=utf-8", "application/json"),
        (embedded("json"), embedded("json")),
        (embedded("avro"), embedded("avro")),
        (f"text/html, {V2};q=0.5, application/json;q=0.6", "application/json"),
        (f"*/*;q=0.1, {embedded('binary')}", embedded("binary")),
        ("nonsense, , ;q=1, application/json", "application/json"),
    ],
)
def test_answers_have_the_type_that_is_liked_best(accept, given):
    assert answer_type(request_with() if accept is None else request_with(accept=accept)) == given


@pytest.mark.parametrize("accept", ["text/html", f"{V2};q=0", "*/*;q=0", f"{V2};q=x", f"{V2};q=2", "image/*"])
def test_accept_header_without_a_supported_type_returns_406(accept):
    with pytest.raises(Problem) as raised:
        answer_type(request_with(accept=accept))
    assert (raised.value.status, raised.value.more["error_code"]) == (406, 406)


def test_a_refused_type_is_not_taken_by_a_wildcard():
    assert answer_type(request_with(accept=f"*/*, {V2};q=0")) == "application/json"


@pytest.mark.parametrize(
    ("accept", "given"),
    [
        (None, embedded("json")),
        ("*/*", embedded("json")),
        (V2, V2),
        ("application/json", "application/json"),
        (embedded("json"), embedded("json")),
        (f"{embedded('binary')}, */*;q=0.1", None),
        (embedded("binary"), None),
        (embedded("avro"), None),
    ],
)
def test_records_come_in_the_format_of_the_instance_or_not_at_all(accept, given):
    request = request_with() if accept is None else request_with(accept=accept)
    if given is not None:
        assert records_type(request, "json") == given
        return
    with pytest.raises(Problem) as raised:
        records_type(request, "json")
    assert (raised.value.status, raised.value.more["error_code"]) == (406, 40601)


@pytest.mark.parametrize(
    "content_type", [V2, embedded("json"), "application/json; charset=utf-8", "application/x-www-form-urlencoded"]
)
def test_bodies_of_json_are_read(content_type):
    check_body_type(request_with(content_type=content_type))
    check_body_type(request_with())


@pytest.mark.parametrize("content_type", ["text/xml", "multipart/form-data; boundary=x", ""])
def test_other_bodies_are_415(content_type):
    with pytest.raises(Problem) as raised:
        check_body_type(request_with(content_type=content_type))
    assert (raised.value.status, raised.value.more["error_code"]) == (415, 415)
