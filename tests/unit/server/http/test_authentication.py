"""Logins over HTTP: passwords against SCRAM credentials, the token, and what the guard makes of them."""

import base64
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request

from tests.unit.server.http.rig import NO_AUTHORIZER, Acls, make_context, make_request
from yak.acls.bindings import Operation, ResourceType
from yak.security import ANONYMOUS
from yak.security.scram import ITERATIONS_MIN, SCRAM_SHA_256, Mechanism, ScramCredential
from yak.server.http import guard
from yak.server.http.authentication import TOKEN_PRINCIPAL, BasicLogins, authenticate
from yak.server.http.guard import access_of
from yak.server.http.problems import Problem
from yak.server.http.route import Guard, Parameter, Route
from yak.server.http.routes import ROUTES

PASSWORD, TOKEN = "pass:wörd", "the-token"


def credential(password: str, salt: bytes = b"salt") -> ScramCredential:
    return SCRAM_SHA_256.credential(SCRAM_SHA_256.salt_password(password, salt, ITERATIONS_MIN), salt, ITERATIONS_MIN)


class Users:
    """The credentials of some users; counts the passwords that were hashed."""

    def __init__(self) -> None:
        self.known = {"ann": credential(PASSWORD)}
        self.hashed: list[str] = []
        users = self

        class Counted(ScramCredential):
            def is_password(self, mechanism: Mechanism, password: str) -> bool:
                users.hashed.append(password)
                return super().is_password(mechanism, password)

        self._counted = Counted

    def password_credential(self, user: str) -> tuple[Mechanism, ScramCredential]:
        found = self.known.get(user) or ScramCredential.unknown(SCRAM_SHA_256, user, b"secret")
        return SCRAM_SHA_256, self._counted(found.salt, found.stored_key, found.server_key, found.iterations)


def basic(user: str, password: str) -> str:
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


def context_of(users: Users, authentication: Any = "basic", token: str | None = TOKEN) -> Any:
    context = make_context(token=token, authentication=authentication)
    context.broker = SimpleNamespace(  # type: ignore[assignment]
        logins=users,
        config=SimpleNamespace(connection_failed_authentication_delay_ms=0),
        authorization=NO_AUTHORIZER,
    )
    return context


def request(authorization: str = "", **more: Any) -> Request:
    return make_request(
        headers={"host": "localhost"} | ({"authorization": authorization} if authorization else {}), **more
    )


def outcome(context: Any, sent: Request, level: Guard = "read", **more: Any) -> str:
    """The principal, or the name of the error."""
    try:
        route = Route("GET", "/", nothing, "x", "T", guard=level, **more)
        return trio.run(guard.check, context, sent, route).principal
    except Problem as problem:
        return problem.error


async def nothing(_context: Any, _request: Request) -> Any:
    raise AssertionError("the guard alone is tested")


@pytest.mark.parametrize("level", ["read", "change", "admin"])
def test_basic_lets_a_user_with_its_password_do_everything(level):
    assert outcome(context_of(Users()), request(basic("ann", PASSWORD)), level) == "User:ann"


@pytest.mark.parametrize("level", ["read", "change", "admin"])
def test_basic_refuses_a_request_without_a_login_with_the_schemes(level):
    context = context_of(Users())
    assert outcome(context, request(), level) == "login-needed"
    assert outcome(context, request("Bearer wrong"), level) == "login-needed"
    with pytest.raises(Problem) as caught:
        trio.run(guard.check, context, request(), Route("GET", "/", nothing, "x", "T"))
    assert caught.value.status == 401
    assert caught.value.headers["www-authenticate"].startswith("Basic ")


def test_route_for_load_balancers_needs_no_login():
    assert outcome(context_of(Users()), request(), is_open=True) == ANONYMOUS


def test_token_is_a_login():
    assert outcome(context_of(Users()), request(f"Bearer {TOKEN}"), "admin") == TOKEN_PRINCIPAL


def test_certificate_is_a_login():
    state = {"stream": SimpleNamespace(principal="User:CN=alice")}
    assert outcome(context_of(Users()), request(state=state), "change") == "User:CN=alice"


@pytest.mark.parametrize("user", ["ann", "unknown", ""])
def test_wrong_password_and_unknown_user_are_refused_alike_and_logged_without_the_password(user):
    context = context_of(Users())
    assert outcome(context, request(basic(user, "guessed"))) == "login-failed"
    (line,) = context.shell.rate_limit.lines
    assert line[:2] == ("warning", "http-login-refused")
    assert "guessed" not in str(line)


@pytest.mark.parametrize(("authentication", "level"), [("none", "change"), ("none", "admin"), ("basic", "read")])
async def test_wrong_token_is_refused_after_the_delay_and_logged_without_it(authentication, level, autojump_clock):
    context = context_of(Users(), authentication)
    context.broker.config.connection_failed_authentication_delay_ms = 100
    for sent, delay_ms in ((request("Bearer guessed"), 100), (request(), 0)):
        began = trio.current_time()
        with pytest.raises(Problem) as caught:
            await guard.check(context, sent, Route("POST", "/", nothing, "x", "T", guard=level))
        assert caught.value.status == 401
        assert round(1000 * (trio.current_time() - began)) == delay_ms
    (line,) = context.shell.rate_limit.lines
    assert line[:2] == ("warning", "http-login-refused")
    assert "guessed" not in str(line)


@pytest.mark.parametrize(
    "header", ["Basic", "Basic !!!", "Basic " + base64.b64encode(b"no colon").decode(), "Basic \xff"]
)
def test_header_that_is_no_user_and_password_is_refused(header):
    assert outcome(context_of(Users()), request(header)) == "login-failed"


def test_password_is_ignored_without_basic():
    users = Users()
    context = context_of(users, "none", None)
    assert outcome(context, request(basic("ann", "wrong"))) == ANONYMOUS
    assert users.hashed == []


async def test_login_that_succeeded_is_not_hashed_again_until_the_credential_changes():
    users = Users()
    logins = BasicLogins(users.password_credential)
    assert await logins.is_right("ann", PASSWORD)
    assert await logins.is_right("ann", PASSWORD)
    assert len(users.hashed) == 1
    assert not await logins.is_right("ann", "wrong")
    assert not await logins.is_right("ann", "wrong")
    assert len(users.hashed) == 3
    users.known["ann"] = credential(PASSWORD, b"another salt")
    assert await logins.is_right("ann", PASSWORD)
    assert len(users.hashed) == 4
    users.known.clear()
    assert not await logins.is_right("ann", PASSWORD)
    assert PASSWORD.encode() not in b"".join(logins._remembered)


@given(st.text(), st.text(), st.text(), st.text())
def test_digests_of_different_logins_differ(user, password, other_user, other):
    logins = BasicLogins(Users().password_credential)
    same = (user, password) == (other_user, other)
    assert (logins._digest(user, password) == logins._digest(other_user, other)) == same


@pytest.mark.parametrize(
    ("guarded", "operation", "path_params", "query", "access"),
    [
        ("read", None, {}, "", (Operation.DESCRIBE, ResourceType.CLUSTER, "kafka-cluster")),
        ("admin", None, {"id": "2"}, "", (Operation.ALTER, ResourceType.CLUSTER, "kafka-cluster")),
        ("read", Operation.READ, {"name": "orders"}, "", (Operation.READ, ResourceType.TOPIC, "orders")),
        ("change", Operation.DELETE, {"name": "orders"}, "", (Operation.DELETE, ResourceType.TOPIC, "orders")),
        ("read", None, {}, "topic=orders", (Operation.DESCRIBE, ResourceType.TOPIC, "orders")),
        ("change", Operation.READ, {"group": "g"}, "topic=orders", (Operation.READ, ResourceType.GROUP, "g")),
        ("change", Operation.WRITE, {}, "", None),
    ],
)
def test_access_names_the_operation_and_the_resource(guarded, operation, path_params, query, access):
    parameters = (Parameter("topic", {"type": "string"}, "the topic"),)
    route = Route("GET", "/", nothing, "x", "T", guard=guarded, operation=operation, parameters=parameters)
    assert access_of(route, request(path_params=path_params, query=query)) == access


_QUERY = "topic=orders&group=billing&name=orders"
_ABOUT_ONE_TOPIC = ("/api/isr", "/metadata/leader")
_ABOUT_THE_CLUSTER = [
    route
    for route in ROUTES
    if route.operation is None and "{" not in route.path and route.path not in _ABOUT_ONE_TOPIC
]


@pytest.mark.parametrize("route", _ABOUT_THE_CLUSTER, ids=lambda route: f"{route.method} {route.path}")
def test_topic_or_group_in_the_query_gives_no_access_to_what_is_about_the_cluster(route):
    access = access_of(route, request(query=_QUERY))
    assert access is not None
    assert access.kind is ResourceType.CLUSTER


def test_refusal_of_the_authorizer_is_403_audited_and_counted():
    context = context_of(Users())
    context.broker.authorization = Acls()
    assert outcome(context, request(basic("ann", PASSWORD))) == "not-allowed"
    assert context.broker.authorization.denied == [(Operation.DESCRIBE, ResourceType.CLUSTER)], "it is in the metric"
    ((level, event, fields),) = context.shell.rate_limit.lines
    assert (level, event, fields["result"], fields["principal"]) == ("warning", "audit", "denied", "User:ann")
    assert fields["resources"] == "DESCRIBE CLUSTER kafka-cluster"
    assert outcome(context, request(), is_open=True) == ANONYMOUS


async def test_password_with_other_characters_is_read_as_utf8():
    assert await authenticate(context_of(Users()), request(basic("ann", PASSWORD))) == "User:ann"
