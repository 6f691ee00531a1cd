"""Members of the demo's group as processes: what they tell arrives, and none outlives who started it."""

import queue
import sys
import time

import pytest

from yak.errors import YakError
from yak.local import processes
from yak.local.demo import group_member
from yak.local.demo.group_member import MemberProcess, MemberSettings
from yak.sim.history_checker.history import Assign, Poll, run
from yak.sim.history_checker.json_lines import to_line

FIRST, LAST = (Poll("m", at, at, (run("t-0", [(offset, 9)]),)) for at, offset in ((2.0, 7), (4.0, 8)))
JOINED = Assign("m", 3.0, {"t-0": None}, (), "g")
STAND_IN = f"""
import os, sys, time
how = sys.argv[sys.argv.index("--topic") + 1]
print(os.getpid())
print({to_line(FIRST)!r}, flush=True)
if how == "fails":
    print("error[unreachable]: no broker answered\\n  why:  nobody listens\\n  try:  yak up", file=sys.stderr)
    sys.exit(3)
if how == "crashes":
    sys.exit("boom")
if how == "hangs":
    time.sleep(60)
if how == "half":
    sys.stdout.write({to_line(LAST)[:20]!r})
    sys.stdout.flush()
    time.sleep(60)
if sys.stdin.readline():
    print({to_line(JOINED)!r}, flush=True)
sys.stdin.read()
print({to_line(LAST)!r}, flush=True)
"""


@pytest.fixture
def start(monkeypatch, tmp_path):
    script = tmp_path / "stand_in.py"
    script.write_text(STAND_IN)
    monkeypatch.setattr(group_member, "yak_argv", lambda *arguments: [sys.executable, str(script), *arguments])
    made = []

    def begin(how):
        events = queue.SimpleQueue()
        member = MemberProcess(MemberSettings("h:1", "g", how, "m", 6000), events.put)
        made.append(member)
        member.start()
        return member, events, events.get(timeout=20)

    yield begin
    for member in made:
        member.abandon()


def rest_of(events):
    found = []
    while not events.empty():
        found.append(events.get())
    return found


def test_events_of_a_member_process_arrive_after_its_process_id(start):
    member, _, heard = start("runs")
    assert heard == FIRST
    assert processes.is_running(member.process)
    member.check()


def test_member_process_joins_when_requested(start):
    member, events, _ = start("runs")
    member.join()
    assert events.get(timeout=20) == JOINED


def test_member_process_ends_in_order_on_request_and_is_read_to_the_end(start):
    member, events, _ = start("runs")
    member.ask_to_end()
    member.wait_end(20)
    assert rest_of(events) == [LAST]
    assert not processes.is_running(member.process)
    member.check()


def test_killed_member_process_has_ended_and_its_partial_line_is_skipped(start):
    member, events, _ = start("half")
    member.kill()
    assert not processes.is_running(member.process)
    assert rest_of(events) == []
    member.check()


def test_member_process_that_ends_by_itself_reports_its_own_error(start):
    member, _, _ = start("fails")
    with pytest.raises(YakError) as caught:
        wait_for_its_end(member)
    assert (caught.value.code, caught.value.why, caught.value.exit_code) == ("unreachable", "nobody listens", 3)
    member.join()  # what ended needs no more words


def test_member_process_that_crashes_raises_an_error_with_its_last_line(start):
    member, _, _ = start("crashes")
    with pytest.raises(YakError) as caught:
        wait_for_its_end(member)
    assert (caught.value.code, caught.value.why) == ("demo-client", "boom")


def test_member_process_that_does_not_end_in_time_is_killed(start):
    member, _, _ = start("hangs")
    member.ask_to_end()
    with pytest.raises(YakError) as caught:
        member.wait_end(0.1)
    assert caught.value.code == "demo-client"
    assert not processes.is_running(member.process)


def wait_for_its_end(member):
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        member.check()
        time.sleep(0.01)
