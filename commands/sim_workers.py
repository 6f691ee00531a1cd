"""Runs simulations in several processes: a run uses one core, and runs are independent."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Annotated, TypeVar

import typer

from yak.commands.app import OUTPUT

_GC_THRESHOLDS = (100_000, 20, 50)
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

Workers = Annotated[
    int | None,
    typer.Option("--workers", min=1, help="Processes [default: the cores there are].", rich_help_panel=OUTPUT),
]


def in_order(
    work: Callable[[_Item], _Result], items: Sequence[_Item], workers: int | None, *, at_once: int = 1
) -> Iterator[_Result]:
    """The results of `work` for the items, in order, from `workers` processes that take `at_once` items each.

    Too few items for two processes are processed in this one. `work` and its results must support pickle.
    """
    workers = min(workers or _cores(), -(-len(items) // at_once))
    if workers <= 1:
        collect_seldom()
        yield from map(work, items)
        return
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_begin)
    try:
        yield from pool.map(work, items, chunksize=at_once)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _cores() -> int:
    """The number of cores for this process, if the system reports it."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _begin() -> None:
    """Ignore Ctrl+C in a worker: the printing process ends the workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    collect_seldom()


def collect_seldom() -> None:
    """Collect cycles rarely. A run creates few cycles and keeps many objects; the default cost a sixth of its time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)
