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
FOUND_AT = {
    "ack-of-repeat": 3,
    "any-proof-believed": 5,
    "broken-job-taken-for-a-failed-one": 3,
    "broker-epoch-ignored-on-return": 5,
    "cold-read-empty": 18,
    "compacted-past-the-watermark": 5,
    "damage-cut-after-a-kill": 2,
    "deleted-records-return": 2,
    "earlier-batches-forgotten": 5,
    "epoch-starts-compacted-away": 6,
    "fetch-of-any-epoch-counts": 5,
    "flush-counts-later-appends": 22,
    "flush-forgives-a-failed-sync": 5,
    "follower-hw-unbounded": 4,
    "half-changed-state-used": 2,
    "hw-below-min-isr": 4,
    "hw-from-own-log-unflushed": 16,
    "hw-of-committed-isr": 5,
    "isr-grown-before-the-store-agreed": 2,
    "isr-shrunk-before-the-store-agreed": 4,
    "last-record-compacted": 2,
    "pending-offsets-applied": 2,
    "producers-lost-in-recovery": 2,
    "quorum-read-without-round": 5,
    "quorum-truncation-unsynced": 4,
    "quorum-vote-for-lost-disk": 4,
    "quorum-vote-twice": 4,
    "restored-from-the-oldest-image": 2,
    "sequences-not-checked": 2,
    "session-expired-by-an-outage": 4,
    "stale-epoch-append": 3,
    "store-believed-after-a-wipe": 2,
    "sync-tried-again": 5,
    "tombstones-gone-at-once": 3,
    "tombstones-kept-no-time": 3,
    "torn-tail-kept": 2,
    "unproven-fetch-counts": 5,
    "verification-skipped": 2,
}
"""Seeds that found a mutant, where seed 1 did not: the hunt begins there. When one no longer does, a later one may."""
QUICK = [mutant for mutant in MUTANTS if mutant.name not in SLOW]


@pytest.mark.parametrize("mutant", QUICK, ids=lambda mutant: mutant.name)
def test_the_checks_notice_that_a_rule_is_gone(mutant):
    finding = hunt(mutant, first=FOUND_AT.get(mutant.name, 1))
    assert finding.is_found, f"{mutant.name}: {finding.seeds_tried} seeds noticed nothing"
    assert finding.found_by


def test_slow_hunts_and_first_seeds_are_of_known_mutants():
    assert set(BY_NAME) >= SLOW | set(FOUND_AT)


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
