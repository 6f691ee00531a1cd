"""Rounds of compaction as the broker makes them, and what a log holds after them."""

from yak.protocol.record_batch import iterate_headers
from yak.protocol.record_walk import walk_records
from yak.storage.compaction import Compaction, CompactionPiece, CompactionResult, Replacement, cleanable

MAP_BYTES = 10_000_000


def put(bench, pairs, **fields):
    """One batch of these (key, value) pairs; a value of None is a tombstone."""
    keys, values = zip(*pairs, strict=True)
    return bench.append(list(values), keys=list(keys), **fields)


def close_segment(bench, **fields):
    """Close the active segment: the next begins with a record of a key that no other record has."""
    bench.log.roll(0)
    put(bench, [(b"z", b"")], **fields)


def compact(bench, *, now_ms=0, map_bytes=MAP_BYTES, high_watermark=None, flush=True):
    """One whole round, as the broker makes it; the job that deletes the old files is run at once."""
    log = bench.log
    if flush:
        bench.flush()
    end = log.log_end_offset if high_watermark is None else high_watermark
    return run_round(log, cleanable(log, end, now_ms), map_bytes, now_ms)


def run_round(log, scope, map_bytes, now_ms):
    """The same of what is given by `scope`."""
    for done in pieces(Compaction(log, scope, map_bytes, now_ms), log.disk):
        if isinstance(done, Replacement):
            log.replace_segments(done.replaced, done.cleaned).run(log.disk)
    log.cleaned_offset = done.end_offset
    return done


def pieces(compaction, disk):
    """What the pieces of a round return, up to its result."""
    plan = CompactionPiece(compaction)
    while not isinstance(done := plan.run(disk), CompactionResult):
        yield done
    yield done


def swap_all(log):
    """A round whose old files are not deleted yet; the jobs that will."""
    work = pieces(Compaction(log, cleanable(log, log.log_end_offset, 0), MAP_BYTES, 0), log.disk)
    return [log.replace_segments(done.replaced, done.cleaned) for done in work if isinstance(done, Replacement)]


def records(bench):
    """(offset, key, value) of all records, as a consumer gets them."""
    found = []
    data = bench.read_all()
    for position, header in iterate_headers(data):
        found += [(r.offset, r.key, r.value) for r in walk_records(data[position : position + header.size_bytes])]
    return found


def batches(bench):
    return [header for _, header in iterate_headers(bench.read_all())]
