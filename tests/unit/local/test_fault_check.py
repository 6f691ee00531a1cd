"""What the doctor says of brokers on which faults can be injected."""

import pytest

from yak.client import faults as client
from yak.errors import UsageError
from yak.local.checks.network import check_faults


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """How many faults each broker has; the others allow none."""
    found: dict[str, int] = {}

    def list_faults(address: str, *, timeout_s: float) -> list[dict[str, object]]:
        assert timeout_s == 1.0
        if address not in found:
            raise UsageError("faults-off", "no faults")
        return [{}] * found[address]

    monkeypatch.setattr(client, "list_faults", list_faults)
    return found


@pytest.mark.parametrize(
    ("counts", "state", "said", "remedy"),
    [
        ({"127.0.0.1:1": 0}, "ok", "127.0.0.1:1 can inject faults", ""),
        ({"127.0.0.1:1": 0, "127.0.0.1:2": 3}, "warn", "inject 3 now", "yak faults clear"),
        ({"10.0.0.9:1": 0}, "warn", "10.0.0.9:1 can inject faults", "enable=false"),
    ],
)
def test_brokers_that_allow_faults_are_reported(brokers, counts, state, said, remedy):
    brokers |= counts
    (finding,) = check_faults("127.0.0.1:1, 127.0.0.1:2,10.0.0.9:1", timeout_s=1.0)
    assert (finding.check, finding.state) == ("faults", state)
    assert said in finding.detail
    assert remedy in (finding.try_ or "")


def test_brokers_that_allow_none_are_not_mentioned(brokers):
    assert check_faults("127.0.0.1:1", timeout_s=1.0) == []
    assert brokers == {}
