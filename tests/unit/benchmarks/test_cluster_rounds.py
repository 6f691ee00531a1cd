"""The results of several rounds as one, without a cluster."""

from yak.local.bench.failover import FailoverResult, FailoverSettings, Kill
from yak.local.demo.delivery import Delivery


def test_two_runs_add_up() -> None:
    from versus.cluster_rounds import add_results

    delivery = Delivery("t", acknowledged=10)
    one = FailoverResult(FailoverSettings(), [Kill(1, 1, True, (0,), 0.0)], delivery)
    both = add_results(one, FailoverResult(FailoverSettings(), [Kill(1, 2, True, (0,), 0.0)], delivery, failed=2))
    assert (len(both.kills), both.delivery.acknowledged, both.failed) == (2, 20, 2)
