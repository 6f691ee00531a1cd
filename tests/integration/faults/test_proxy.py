"""The fault proxy knows whose connection it carries: one that it takes for a client's would not be cut, and prove nothing."""

import os
import socket
import subprocess
import sys

from yak.local.chaos.proxy import CLIENTS, name_of, quiet_port

HOLD_ONE = """
import socket, sys
sock = socket.socket()
sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
sock.bind(("127.0.0.1", int(sys.argv[1])))
sock.connect(("127.0.0.1", int(sys.argv[2])))
print("connected", flush=True)
sys.stdin.read()
"""


def test_local_port_shared_by_two_processes_is_distinguished_by_its_destination():
    """Linux gives one local port to several connections with different destinations; brokers and clients meet this."""
    with socket.create_server(("127.0.0.1", 0)) as ours, socket.create_server(("127.0.0.1", 0)) as theirs:
        to_ours, to_theirs = ours.getsockname()[1], theirs.getsockname()[1]
        port = quiet_port()
        argv = [sys.executable, "-c", HOLD_ONE, str(port), str(to_theirs)]
        other = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            assert other.stdout is not None
            assert other.stdout.readline() == "connected\n"
            with socket.socket() as mine:
                mine.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                mine.bind(("127.0.0.1", port))
                mine.connect(("127.0.0.1", to_ours))
                pids = {"mine": os.getpid(), "other": other.pid}
                assert name_of(port, to_ours, pids) == "mine"
                assert name_of(port, to_theirs, pids) == "other"
                assert name_of(port, to_ours, {}) == CLIENTS
        finally:
            other.kill()
            other.communicate()


def test_every_connection_between_brokers_is_known_for_what_it_is(cluster, unique_topic):
    cluster.create(unique_topic, [1, 2, 3], [2, 3, 1], [3, 1, 2])
    for node in cluster.nodes.values():
        expected = {other.name for other in cluster.nodes.values() if other is not node}
        assert expected <= set(node.proxy._connections.values()), f"{node.name} is fetched from by all others"
