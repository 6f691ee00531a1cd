"""Threads that ask several brokers at once find the messages imported: Python may see a deadlock in their imports."""

import subprocess
import sys

import pytest

SCRIPT = """
import sys
from concurrent.futures import ThreadPoolExecutor
from yak.client import members, replica_offsets
from yak.client.metadata import Broker, ClusterMetadata

late = []

class Pool(ThreadPoolExecutor):
    def __init__(self, **options):
        late.extend(name for name in NEEDED if name not in sys.modules)
        super().__init__(**options)

NEEDED = ["kio.schema.MESSAGE.request", "kio.schema.MESSAGE.response"]
replica_offsets.ThreadPoolExecutor = members.ThreadPoolExecutor = Pool
brokers = {node: Broker(node, "127.0.0.1", 1) for node in (1, 2, 3)}
CALL
print(late)
"""


@pytest.mark.parametrize(
    ("message", "call"),
    [
        ("describe_configs.v4", "replica_offsets.damaged_offsets(brokers, 'orders', timeout_s=1)"),
        (
            "list_offsets.v7",
            "replica_offsets._ask_all(brokers, {node: [('orders', 0)] for node in brokers}, -1, 1, {})",
        ),
        (
            "describe_configs.v4",
            "members.read_members(ClusterMetadata('', 1, brokers, {}), answered='127.0.0.1:1', timeout_s=1)",
        ),
    ],
    ids=["damaged offsets", "offsets", "members"],
)
def test_messages_are_imported_before_threads_use_them(message: str, call: str) -> None:
    script = SCRIPT.replace("MESSAGE", message).replace("CALL", call)
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (ran.stdout, ran.stderr) == ("[]\n", "")
