"""A simulator that cannot fail proves nothing: each rule taken out of the broker must be missed by some seed.

The quick hunts are here; `make test-all` has them all (`yak sim mutants`).
"""

import pytest

from yak.sim.mutants.catalogue import BY_NAME, MUTANTS
from yak.sim.mutants.mutant import BrokenMutant, Mutant, hunt
from yak.sim.run import run_seed
from yak.sim.spec import Spec
from yak.sim.trial import run_spec

SLOW = {
    "aborted-index-lost",
    "aborted-offsets-applied",
    "coordinator-checks-no-crc",
    "coordinator-not-loaded",
    "epoch-not-bumped",
    "follower-acks-unflushed",
    "follower-checks-no-crc",
    "follower-takes-any-offset",
    "isr-change-forgotten",
    "join-before-epoch-start",
    "lead-in-old-boot",
    "marker-dropped-early",
    "old-generation-commits",
    "prepared-forgotten",
    "quorum-directory-ignored",
    "quorum-no-pre-vote",
    "quorum-pre-vote-of-followers",
    "quorum-read-by-any-fetch",
    "quorum-snapshot-keeps-log",
    "quorum-vote-by-length",
    "resigning-replica-fetches",
    "retention-past-hw",
    "stale-generation-accepted",
    "truncate-to-hw",
    "truncation-keeps-recovery-point",
    "wiped-disk-believed",
}
"""Hunts of more than four seconds of CPU."""
QUICK = [mutant for mutant in MUTANTS if mutant.name not in SLOW]


@pytest.mark.parametrize("mutant", QUICK, ids=lambda mutant: mutant.name)
def test_the_checks_notice_that_a_rule_is_gone(mutant):
    finding = hunt(mutant)
    assert finding.is_found, f"{mutant.name}: {finding.seeds_tried} seeds noticed nothing"
    assert finding.found_by


def test_slow_hunts_are_of_known_mutants():
    assert set(BY_NAME) >= SLOW


def test_the_rules_that_any_kafka_must_have_are_among_them():
    assert set(BY_NAME) >= {
        "hw-from-own-log",
        "truncate-to-hw",
        "isr-grown-before-the-store-agreed",
        "stale-epoch-append",
        "ack-before-replication",
        "broker-epoch-ignored-on-return",
        "session-expired-by-an-outage",
        "earlier-batches-forgotten",
        "producer-snapshots-ignored",
        "producers-lost-in-recovery",
        "torn-tail-kept",
        "store-believed-after-a-wipe",
        "wiped-disk-believed",
        "fetch-above-hw",
        "lso-ignored",
    }


def test_a_mutant_is_gone_when_its_run_ends():
    sound = run_seed(1).trace_hash
    assert BY_NAME["ack-before-flush"].run(1).error is not None
    assert run_seed(1).trace_hash == sound


def test_a_finding_is_replayed_by_its_command():
    finding = hunt(BY_NAME["hw-from-own-log"])
    assert finding.replay == f"yak sim run --seed {finding.seed} --brokers 3 --mutant hw-from-own-log"
    assert run_spec(Spec(finding.seed, 3, mutant="hw-from-own-log")).error == finding.error


def test_a_mutant_that_breaks_the_broker_by_mistake_is_no_finding():
    def switch_on(swaps):
        from yak.replication.partition import Partition

        swaps.put(Partition, "advance_high_watermark", lambda: True)

    with pytest.raises(BrokenMutant, match="TypeError"):
        hunt(Mutant("broken", "", switch_on, 1, 1))
