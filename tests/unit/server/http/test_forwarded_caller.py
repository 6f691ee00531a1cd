"""Callers of forwarded requests: taken from a broker of the cluster, and from nothing else."""

import base64
import json
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request

from tests.unit.server.http.rig import make_context, make_request
from yak.acls.bindings import Operation, ResourceType
from yak.protocol.peer_proof import SECRET_BYTES, ClusterSecret
from yak.security import ANONYMOUS
from yak.server.http import guard
from yak.server.http.authentication import TOKEN_PRINCIPAL, Caller
from yak.server.http.forwarded_caller import CLOCKS_MS_MAX, HEADER, forwarded_caller, forwarding_header
from yak.server.http.problems import Problem
from yak.server.http.route import Parameter, Route

SECRET, NOW_MS = ClusterSecret(b"s" * SECRET_BYTES), 1_700_000_000_000
ANN = Caller("User:CN=ann,O=größe", None, "10.0.0.9:50000")
METHOD, PATH, QUERY = "GET", "/api/isr", "topic=a%20b&local=true"


def broker(
    node_id: int = 2, secret: ClusterSecret | None = SECRET, cluster_id: str = "cluster", wall_ms: int = NOW_MS
) -> Any:
    allowed = SimpleNamespace(
        is_active=True,
        authorize=lambda principal, host, *_: (principal, host) == ALLOWED,
        count_denied=lambda *_: None,
    )
    peers = SimpleNamespace(secret=secret, cluster_id=cluster_id)
    return SimpleNamespace(node_id=node_id, peers=peers, wall_ms=wall_ms, authorization=allowed)


ALLOWED = (ANN.principal, "10.0.0.9")


def header(caller: Caller = ANN, *, by: Any = None, to: int = 2) -> str:
    made = forwarding_header(by or broker(node_id=1), caller, to, METHOD, f"{PATH}?{QUERY}")
    return made[HEADER]


def request(given: str | None, *, method: str = METHOD, path: str = PATH, query: str = QUERY, **more: str) -> Request:
    sent = {"host": "127.0.0.1", **({} if given is None else {HEADER: given}), **more}
    return make_request(query, sent, method=method, path=path, raw_path=path.encode(), client=("10.0.0.1", 40000))


def context(at: Any = None, **more: Any) -> Any:
    made = make_context(**more)
    made.broker = at or broker()
    return made


def taken(given: str | None, at: Any = None, **more: str) -> Caller | str:
    """The caller, or the name of the error."""
    try:
        return forwarded_caller(context(at), request(given, **more)) or Caller()
    except Problem as problem:
        return problem.error


@given(st.text(st.characters(exclude_categories=("Cs",)), max_size=60), st.sampled_from(["10.0.0.9:1", "::1:50000"]))
def test_principal_and_address_arrive_as_they_were_sent(name: str, peer: str) -> None:
    caller = Caller(f"User:{name}", None, peer)
    assert taken(header(caller)) == caller


def test_request_without_the_header_names_no_caller() -> None:
    assert taken(None) == Caller()
    assert forwarding_header(broker(secret=None), ANN, 2, METHOD, PATH) == {}


@pytest.mark.parametrize(
    "more",
    [{"method": "POST"}, {"path": "/api/brokers/2/shutdown"}, {"query": "topic=other&local=true"}, {"query": ""}],
)
def test_header_of_another_request_is_refused(more: dict[str, str]) -> None:
    assert taken(header(), **more) == "not-allowed"


@pytest.mark.parametrize(
    "given",
    [
        header(to=3),
        header(by=broker(secret=ClusterSecret(b"x" * SECRET_BYTES))),
        header(by=broker(cluster_id="another cluster")),
        header(by=broker(wall_ms=NOW_MS - CLOCKS_MS_MAX - 1)),
        header(by=broker(wall_ms=NOW_MS + CLOCKS_MS_MAX + 1)),
    ],
)
def test_header_of_another_broker_cluster_secret_or_time_is_refused(given: str) -> None:
    assert taken(given) == "not-allowed"


def test_header_is_refused_by_a_broker_without_the_secret() -> None:
    assert taken(header(), broker(secret=None)) == "not-allowed"


@given(
    st.one_of(st.text(st.characters(max_codepoint=255, exclude_characters="\r\n\0")), st.just("."), st.just("W10=."))
)
def test_header_that_a_client_makes_up_is_refused(given: str) -> None:
    assert taken(given) == "not-allowed"


@given(st.integers(0, len(header()) - 1), st.characters(min_codepoint=33, max_codepoint=126))
def test_changed_header_is_refused(index: int, character: str) -> None:
    given = header()
    changed = given[:index] + character + given[index + 1 :]
    assert taken(changed) == (ANN if changed == given else "not-allowed")


def refusal(given: str | None, **more: Any) -> tuple[str, list[Any]]:
    """The error of the guard, and what it logged."""
    settings = {name: more.pop(name) for name in ("token", "authentication") if name in more}
    made = context(**settings)

    async def handler(_context: Any, _request: Request) -> Any:
        raise AssertionError("the guard alone is tested")

    route = Route(more.pop("verb", METHOD), PATH, handler, "x", "T", guard=more.pop("guard", "read"))
    try:
        trio.run(guard.check, made, request(given, **more), route)
    except Problem as problem:
        return problem.error, made.shell.rate_limit.lines
    return "", made.shell.rate_limit.lines


def test_acls_of_the_callers_principal_and_address_decide() -> None:
    assert refusal(header()) == ("", [])
    for other in (Caller("User:bob", None, ANN.peer), Caller(ANN.principal, None, "10.0.0.1:40000")):
        error, lines = refusal(header(other))
        assert error == "not-allowed"
        assert (lines[0][2]["principal"], lines[0][2]["host"]) == (other.principal, other.host)


def test_client_that_names_a_principal_itself_is_refused_and_logged() -> None:
    document = json.dumps([ANN.principal, ANN.peer, NOW_MS]).encode()
    error, lines = refusal(f"{base64.urlsafe_b64encode(document).decode()}.{'0' * 64}")
    assert error == "not-allowed"
    assert lines[0][:2] == ("warning", "http-forward-refused")


def test_forwarded_request_without_a_login_is_served_as_one_without_a_login() -> None:
    anonymous = header(Caller(ANONYMOUS, None, "127.0.0.1:1"))
    assert refusal(anonymous, authentication="basic")[0] == "login-needed"
    assert refusal(anonymous, token="secret", guard="change")[0] == "token-needed"
    assert refusal(anonymous, guard="admin")[0] == "local-only", "the address of another machine's loopback"


def test_forwarded_principal_of_the_token_needs_no_token_here() -> None:
    assert refusal(header(Caller(TOKEN_PRINCIPAL, None, ANN.peer)), token="another", guard="change")[0] == "not-allowed"


async def test_need_of_the_route_is_checked_for_the_forwarded_caller() -> None:
    checked: list[Any] = []
    at = broker()
    at.authorization.authorize = lambda *given: checked.append(given) or True
    made = context(at)

    async def handler(_context: Any, _request: Request) -> Any:
        raise AssertionError

    route = Route(METHOD, PATH, handler, "x", "T", parameters=(Parameter("topic", {"type": "string"}, "the topic"),))
    await guard.check(made, request(header()), route)
    assert checked == [(ANN.principal, "10.0.0.9", Operation.DESCRIBE, ResourceType.TOPIC, "a b")]
