"""Work after the start: boot marks, garbage collector settings, rare message schemas, half-deleted folders."""

import gc
from typing import Final

import trio

from yak.broker import apis
from yak.errors import LogDirectoryFailure
from yak.protocol import codec
from yak.server import log
from yak.server.shell import Shell
from yak.storage.log_store import LogStore

_SETTLE_SECONDS: Final = 1.0
_BETWEEN_SCHEMAS_SECONDS: Final = 0.05
_NEWEST_VERSIONS: Final = 2
"""Per API: the versions of current clients. All would take 12 MB; an older one delays its first request by some ms."""
GC_THRESHOLDS: Final = (5_000, 5, 2_000)
"""A collection stops every client: 50,000 objects in cycles, left by clients, took 50 ms. So one of the second
generation covers 25,000 objects. With 1,000,000, as many as 15,000 new groups have, it took 300 ms. All objects are
scanned only after 50 million more allocations, since the core makes no cycles on its hot path."""


async def after_ready(shell: Shell, log_store: LogStore) -> None:
    """Run once after the listener opens: the broker's registration has reported what a machine crash cost."""
    try:
        await trio.to_thread.run_sync(log_store.renew_boot_marks)
    except (LogDirectoryFailure, RuntimeError) as failure:  # or no thread: harmless, the old mark promises less
        log.write("warning", "boot-marker-not-written", {"error": str(failure)})
    freeze()
    await trio.sleep(_SETTLE_SECONDS)
    for path in log_store.report.leftovers:
        try:
            await trio.to_thread.run_sync(log_store.disk.remove_tree, path)
        except Exception as error:  # noqa: BLE001 - what is left over can stay until the next start
            log.write("warning", "leftover-not-removed", {"error": str(error)})
    frames = -1
    for api_key, api in apis.TABLE.items():
        for version in sorted(api.VERSIONS)[-_NEWEST_VERSIONS:]:
            # Each takes milliseconds of the event loop: run between requests.
            await trio.sleep(_BETWEEN_SCHEMAS_SECONDS)
            while frames != shell.counters.frames:
                frames = shell.counters.frames
                await trio.sleep(_BETWEEN_SCHEMAS_SECONDS)
            codec.preload([(api_key, [version])])
    gc.unfreeze()
    gc.collect()
    freeze()


def freeze() -> None:
    """Exempt all live objects from later garbage collections, and collect seldom.

    What the start left in cycles is collected later: that would take 40 ms of the first requests.
    """
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    gc.enable()
