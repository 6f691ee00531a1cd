"""mypy, strict, on a program that uses `import yak`: it sees the API, and no name or option that is not there."""

import os
import subprocess
import sys
from pathlib import Path

import yak

ROOT = Path(yak.__file__).parents[1]


def test_a_type_checker_sees_the_api_and_no_name_that_is_not_there(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import yak\n"
        "def work() -> int:\n"
        '    with yak.connect("h:1") as client:\n'
        '        client.create_topic("orders", num_partitions=3)\n'
        '        with client.producer(acks="all") as producer:\n'
        '            sent = producer.send("orders", {"total": 12}, key="u1").result(5)\n'
        '        with client.consumer(group_id="billing") as consumer:\n'
        '            for message in consumer.subscribe("orders").poll():\n'
        "                print(message.value)\n"
        "        return sent.offset\n"
        "async def later() -> int:\n"
        "    async with yak.aio.Producer() as first, yak.trio.Producer(acks=1) as second:\n"
        '        return (await first.send("t", 1)).offset + (await second.send("t", 1)).partition\n'
        'yak.Producer(acks="some")\n'
        'yak.aio.Consumer(group="g")\n'
        "yak.Broker\n"
    )
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), str(program)]
    environment = {**os.environ, "MYPYPATH": str(ROOT), "COLUMNS": "200"}
    ran = subprocess.run(
        [*command, "--config-file", "", "--ignore-missing-imports", "--follow-imports", "silent"],
        capture_output=True,
        text=True,
        env=environment,
        cwd=tmp_path,
        check=False,
    )
    errors = [line.partition(": error: ")[2] for line in ran.stdout.splitlines() if ": error: " in line]
    lines = [int(line.split(":")[1]) for line in ran.stdout.splitlines() if ": error: " in line]
    assert lines == [14, 15, 16], ran.stdout
    assert "acks" in errors[0]
    assert '"group"' in errors[1]
    assert '"Broker"' in errors[2]
