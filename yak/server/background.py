"""What waits until clients are served: boot marks, freezing what lives for ever, rare message schemas, half-deleted
folders."""

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
"""Of each API: what today's clients send. All versions would be 12 MB for clients that may never come; an older one
costs its first request a few milliseconds."""
_GC_THRESHOLDS: Final = (50_000, 20, 50)
"""The core makes no reference cycles on its hot path: rarer collections cost nothing and stop the loop less often."""


async def after_ready(shell: Shell, log_store: LogStore) -> None:
    """Run once, after the first client could connect: the broker is registered, so what its start found is known."""
    try:
        await trio.to_thread.run_sync(log_store.renew_boot_marks)
    except LogDirectoryFailure as failure:  # the old mark says less good of us than is true, which harms nobody
        log.write("warning", "boot-mark-not-written", {"error": str(failure)})
    freeze()
    await trio.sleep(_SETTLE_SECONDS)
    for remove in log_store.report.leftovers:
        try:
            await trio.to_thread.run_sync(remove)
        except Exception as error:  # noqa: BLE001 - what is left over can stay until the next start
            log.write("warning", "leftover-not-removed", {"error": str(error)})
    frames = -1
    for api_key, api in apis.TABLE.items():
        for version in sorted(api.VERSIONS)[-_NEWEST_VERSIONS:]:
            # Each takes milliseconds of the loop: between requests, not in front of them.
            await trio.sleep(_BETWEEN_SCHEMAS_SECONDS)
            while frames != shell.counters.frames:
                frames = shell.counters.frames
                await trio.sleep(_BETWEEN_SCHEMAS_SECONDS)
            codec.preload([(api_key, [version])])
    freeze()


def freeze() -> None:
    """Take what is alive now out of every later garbage collection, and collect seldom."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)
    gc.enable()
