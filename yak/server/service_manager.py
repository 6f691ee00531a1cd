"""Readiness for a service manager: systemd's units with `Type=notify` (sd_notify(3))."""

import os
import socket

from yak.server import log

ADDRESS = "NOTIFY_SOCKET"
"""The variable with the manager's socket; a name that begins with @ has no file."""


def report_ready() -> None:
    """Tell the manager, if there is one, that clients are answered."""
    address = os.environ.pop(ADDRESS, "")
    if not address:
        return
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.sendto(b"READY=1", "\0" + address[1:] if address[0] == "@" else address)
    except OSError as error:
        log.write("error", "ready-report-failed", {"reason": error.strerror}, error=error)
