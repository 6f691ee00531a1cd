"""schemathesis sends a real broker what /openapi.json allows and what it forbids, route by route.

New routes are taken by themselves. One route only:

    pytest tests/integration/http/test_openapi.py -k 'GET and /consume'
"""

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Final

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.config import SchemathesisConfig
from schemathesis.generation.feedback import FeedbackSources
from schemathesis.pytest._test_builder import build_operation_test
from schemathesis.specs.openapi import checks as openapi_checks

from yak.client.admin import Admin
from yak.errors import YakError
from yak.server.http.openapi import document, openapi_path
from yak.server.http.routes import ROUTES

LEFT_OUT: Final[dict[tuple[str, str], str]] = {
    ("POST", "/api/brokers/{id}/shutdown"): "it ends the broker that is asked",
}
"""Routes that end what they are tested on, each with its reason."""
TOPIC: Final = "asked-of"
THERE: Final = {"topic": TOPIC, "name": TOPIC, "partition": 0, "timeout_ms": 10, "timeout": 10}
TROUBLES: Final = {
    "no-answer",
    "request-timed-out",
    "not-enough-replicas",
    "coordinator-load-in-progress",
    "broker-unreachable",
}
"""What one broker that is well may answer all the same: a topic may ask for more replicas in sync than there are."""
EXAMPLES, EXAMPLES_OF_ALL = 8, 15
"""For each route; the second in `make test-all`, as `tests/conftest.py` has it for all properties."""
PATIENCE_SECONDS: Final = 20


def trouble_is_only_the_clusters(_context: Any, response: Any, case: Any) -> None:
    """500 is a bug. 503 and 504 say what the cluster cannot do now, as an error does or as the route declares it."""
    if response.status_code < 500:
        return
    assert response.status_code in {503, 504}, f"{case.operation.label}: {response.status_code} {response.text}"
    declared = case.operation.definition.raw["responses"]
    if str(response.status_code) not in declared:
        found = response.json()
        assert set(found) - {"error_code"} == {"error", "message", "hint"}
        assert found["error"] in TROUBLES, f"{case.operation.label}: {found}"


def what_is_forbidden_is_refused(context: Any, response: Any, case: Any) -> None:
    """Whatever is sent as text is text: only JSON can be of the wrong type."""
    if case.media_type is None or "json" in case.media_type:
        openapi_checks.negative_data_rejection(context, response, case)


CHECKS: Final = [
    trouble_is_only_the_clusters,
    openapi_checks.status_code_conformance,
    openapi_checks.content_type_conformance,
    openapi_checks.response_schema_conformance,
    what_is_forbidden_is_refused,
    openapi_checks.unsupported_method,
    openapi_checks.allow_header_conformance,
]


def is_stream(route: Any) -> bool:
    return any(answer.media_type == "text/event-stream" for answer in route.answers.values())


def routes_to_ask() -> list[Any]:
    """All routes but those that have a reason; a stream does not end, and has tests of its own."""
    return [route for route in ROUTES if (route.method, route.path) not in LEFT_OUT and not is_stream(route)]


CONFIG = SchemathesisConfig.from_dict(
    {
        "generation": {"deterministic": True, "max-examples": EXAMPLES_OF_ALL, "no-shrink": True},
        "checks": {"negative_data_rejection": {"expected-statuses": ["4xx"]}},
    }
)
SETTINGS = settings(
    derandomize=True,
    deadline=None,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
schema = schemathesis.openapi.from_dict(document(routes_to_ask()), config=CONFIG)


@pytest.fixture(scope="module")
def broker_of_all(borrowed_broker: Callable[[], AbstractContextManager[Any]]) -> Iterator[Any]:
    with borrowed_broker() as broker:
        yield broker.start(http_port=0, offsets_topic_num_partitions=1, group_initial_rebalance_delay_ms=0)
        assert broker.is_running, broker.log()[-5000:]
        assert " ERROR " not in broker.log(), broker.log()[-5000:]


@pytest.fixture(scope="module")
def session() -> Iterator[requests.Session]:
    with requests.Session() as made:
        made.trust_env = False
        yield made


def aim(case: Any) -> None:
    """Of what is allowed most would ask for what is not there, or wait: ask for what is there, and at once."""
    if not case.meta.generation.mode.is_positive:
        return
    for name, value in THERE.items():
        for values in (case.path_parameters, case.query):
            if values.get(name) is not None:
                values[name] = str(value)
        if isinstance(case.body, dict) and isinstance(case.body.get(name), type(value)):
            case.body[name] = value


def make_topic(bootstrap: str) -> None:
    """The topic that is asked of, if a route has not left it there."""
    admin = Admin(bootstrap)
    with contextlib.suppress(YakError):
        admin.create_topic(TOPIC, partitions=1)


@pytest.mark.parametrize("route", routes_to_ask(), ids=lambda route: f"{route.method} {route.path}")
def test_a_route_keeps_to_its_description(route, broker_of_all, session, pytestconfig):
    make_topic(broker_of_all.bootstrap)
    url = broker_of_all.http_url

    def ask(case: Any) -> None:
        aim(case)
        case.call_and_validate(base_url=url, session=session, checks=CHECKS, timeout=PATIENCE_SECONDS)

    # What schema.parametrize() does, with ids that pytest and its plugins tell apart.
    operation = schema[openapi_path(route.path)][route.method]
    test = build_operation_test(
        config=schema.config, operation=operation, test_func=ask, given_kwargs={}, feedback=FeedbackSources()
    )
    examples = EXAMPLES_OF_ALL if pytestconfig.getoption("all_examples") else EXAMPLES
    settings(SETTINGS, max_examples=examples)(test)()
