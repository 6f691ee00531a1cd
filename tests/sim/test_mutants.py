"""A simulator that cannot fail proves nothing: each rule taken out of the broker must be missed by some seed.

The quick hunts are here; `make test-all` has them all (`yak sim mutants`).
"""

import pytest

from yak.sim.mutants.catalogue import BY_NAME
from yak.sim.mutants.hunt import BrokenMutant, hunt
from yak.sim.mutants.mutant import Mutant
from yak.sim.spec import Spec
from yak.sim.trial import run_spec

SLOW = {
    "aborted-index-lost",
    "aborted-index-not-copied",
    "aborted-not-named",
    "aborted-offsets-applied",
    "any-proof-believed",
    "broken-job-taken-for-a-failed-one",
    "broker-epoch-ignored-on-return",
    "closed-before-import",
    "cold-read-empty",
    "commit-acked-unreplicated",
    "commit-shown-unreplicated",
    "committed-survives-unclean-election",
    "compacted-past-the-watermark",
    "coordinator-checks-no-crc",
    "coordinator-not-loaded",
    "damage-cut-after-a-kill",
    "damage-of-the-start-ignored",
    "damaged-leader-stays",
    "divergence-not-looked-for",
    "epoch-not-bumped",
    "fenced-producer-recovers",
    "fetch-of-any-epoch-counts",
    "follower-acks-unflushed",
    "follower-checks-no-crc",
    "follower-hw-unbounded",
    "follower-read-above-hw",
    "follower-takes-any-offset",
    "hw-below-min-isr",
    "hw-of-a-deleted-topic",
    "hw-of-committed-isr",
    "isr-change-forgotten",
    "isr-grown-before-the-store-agreed",
    "isr-shrunk-before-the-store-agreed",
    "join-before-epoch-start",
    "lead-in-old-boot",
    "listed-end-above-hw",
    "lso-ignored",
    "marker-dropped-early",
    "move-without-configs",
    "old-generation-commits",
    "pending-offsets-applied",
    "power-loss-not-told",
    "prepared-forgotten",
    "produce-left-waiting",
    "producers-not-copied",
    "quorum-no-divergence",
    "quorum-no-pre-vote",
    "quorum-pre-vote-of-followers",
    "quorum-read-by-any-fetch",
    "quorum-snapshot-keeps-log",
    "quorum-vote-by-length",
    "resigning-replica-fetches",
    "restore-without-acls",
    "restored-from-the-oldest-image",
    "retention-never",
    "retention-of-what-is-not-due",
    "retention-past-hw",
    "session-expired-by-an-outage",
    "session-not-told",
    "short-log-leads",
    "snapshot-without-quotas",
    "snapshots-side-by-side",
    "stale-generation-accepted",
    "store-believed-after-a-wipe",
    "tombstones-gone-at-once",
    "tombstones-kept-no-time",
    "truncate-to-hw",
    "truncation-keeps-recovery-point",
    "verification-skipped",
    "wiped-disk-believed",
}
"""Hunts of more than a second of processor time."""
FOUND_AT = {
    "copy-sealed-unsynced": 9,
    "deleted-records-return": 3,
    "earlier-batches-forgotten": 8,
    "epoch-starts-compacted-away": 6,
    "flush-counts-later-appends": 216,
    "flush-forgives-a-failed-sync": 3,
    "half-changed-state-used": 3,
    "handed-over-log-written": 67,
    "hw-from-own-log-unflushed": 17,
    "last-record-compacted": 2,
    "marker-before-decision": 2,
    "move-not-synced": 9,
    "producer-ids-given-again": 3,
    "producers-lost-in-recovery": 2,
    "quorum-commit-by-counting": 4,
    "quorum-directory-ignored": 12,
    "quorum-read-without-round": 4,
    "quorum-reports-forgotten": 10,
    "quorum-truncation-unsynced": 4,
    "quorum-vote-for-lost-disk": 2,
    "quorum-vote-twice": 6,
    "redis-closed-before-commit": 39,
    "redis-open-at-import": 14,
    "retention-too-early": 8,
    "sequences-not-checked": 2,
    "stale-epoch-append": 39,
    "sync-tried-again": 9,
    "torn-tail-kept": 2,
    "unproven-fetch-counts": 39,
}
"""Seeds that find a quick mutant at once, where seed 1 does not: the hunt begins there. When one no longer does, a later
one may."""
QUICK = [mutant for mutant in BY_NAME.values() if mutant.name not in SLOW]


@pytest.mark.parametrize("mutant", QUICK, ids=lambda mutant: mutant.name)
def test_simulator_checks_detect_a_removed_rule(mutant):
    finding = hunt(mutant, first=FOUND_AT.get(mutant.name, 1))
    assert finding.seed is not None, f"{mutant.name}: {finding.seeds_tried} seeds noticed nothing"
    assert finding.found_by


@pytest.mark.parametrize("mutant", BY_NAME.values(), ids=lambda mutant: mutant.name)
def test_mutant_replaces_what_is_there(mutant):
    """A mutant of a slow hunt, too, names attributes that the product has."""
    with mutant.on():
        pass


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


def test_mutant_is_removed_when_its_run_ends():
    sound = run_spec(Spec(1)).trace_hash
    assert run_spec(BY_NAME["ack-before-flush"].spec(1)).error is not None
    assert run_spec(Spec(1)).trace_hash == sound


def test_a_finding_is_replayed_by_its_command():
    finding = hunt(BY_NAME["hw-from-own-log"])
    assert finding.replay == f"yak sim run --seed {finding.seed} --brokers 3 --mutant hw-from-own-log"
    assert run_spec(Spec(finding.seed, 3, mutant="hw-from-own-log")).error == finding.error


def test_a_mutant_that_breaks_the_broker_by_mistake_is_no_finding(monkeypatch):
    def switch_on(swaps):
        from yak.replication.partition import Partition

        swaps.put(Partition, "advance_high_watermark", lambda: True)

    broken = Mutant("broken", "", switch_on, 1, 1)
    monkeypatch.setitem(BY_NAME, broken.name, broken)
    with pytest.raises(BrokenMutant, match="TypeError"):
        hunt(broken)
