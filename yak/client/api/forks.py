"""A fork: librdkafka's threads are in the parent alone. In the child its handles wait without end, or abort the process
when they are freed; so they are closed there for the program, and never freed."""

import os
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

open_clients: WeakKeyDictionary[Any, Callable[[Any], Any]] = WeakKeyDictionary()
"""All clients, producers and consumers of this process, and what closes one and returns librdkafka's handle."""


def _in_child() -> None:
    if open_clients:
        from ctypes import py_object, pythonapi

        for each, leave_to_parent in list(open_clients.items()):
            pythonapi.Py_IncRef(py_object(leave_to_parent(each)))


os.register_at_fork(after_in_child=_in_child)
