"""Members of the demo's group as processes: what they tell arrives, and none outlives who started it."""

import queue
import sys
import time

import pytest

from yak.errors import YakError
from yak.local import processes
from yak.local.demo import member_process
from yak.local.demo.group_events import Began, Given, Read
from yak.local.demo.group_member import MemberSettings
from yak.local.demo.member_process import MemberProcess

STAND_IN = """
import os, sys, time
how = sys.argv[sys.argv.index("--topic") + 1]
print('{"event":"began","at":1.0,"pid":%d}' % os.getpid())
print('{"event":"read","at":2.0,"partition":0,"offset":7,"checksum":9}', flush=True)
if how == "fails":
    print("error[unreachable]: no broker answered\\n  why:  nobody listens\\n  try:  yak up", file=sys.stderr)
    sys.exit(3)
if how == "crashes":
    sys.exit("boom")
if how == "hangs":
    time.sleep(60)
if how == "half":
    sys.stdout.write('{"event":"read","at":3.0,')
    sys.stdout.flush()
    time.sleep(60)
if sys.stdin.readline():
    print('{"event":"given","at":3.0,"partitions":[0]}', flush=True)
sys.stdin.read()
print('{"event":"read","at":4.0,"partition":0,"offset":8,"checksum":9}', flush=True)
"""


@pytest.fixture
def start(monkeypatch, tmp_path):
    script = tmp_path / "stand_in.py"
    script.write_text(STAND_IN)
    monkeypatch.setattr(member_process, "yak_argv", lambda *words: [sys.executable, str(script), *words])
    made = []

    def begin(how):
        told = queue.SimpleQueue()
        member = MemberProcess(MemberSettings("h:1", "g", how, "m", 6000), told, str(tmp_path / "errors.log"))
        made.append(member)
        member.start()
        heard = [told.get(timeout=20), told.get(timeout=20)]
        return member, told, heard

    yield begin
    for member in made:
        member.abandon()


def rest_of(told):
    found = []
    while not told.empty():
        found.append(told.get())
    return found


def test_what_it_tells_arrives_with_its_name(start):
    member, _, heard = start("runs")
    assert [name for name, _ in heard] == ["m", "m"]
    assert heard[0][1] == Began(1.0, member.pid)
    assert heard[1][1] == Read(2.0, 0, 7, 9)
    member.check()


def test_it_joins_when_it_is_told_to(start):
    member, told, _ = start("runs")
    member.join()
    assert told.get(timeout=20) == ("m", Given(3.0, (0,)))


def test_it_ends_in_order_when_it_is_asked_to_and_is_heard_to_the_end(start):
    member, told, _ = start("runs")
    member.ask_to_end()
    member.wait_end(20)
    assert rest_of(told) == [("m", Read(4.0, 0, 8, 9))]
    assert not processes.is_running(member.process)
    member.check()


def test_a_killed_one_is_gone_and_its_half_line_is_passed_over(start):
    member, told, _ = start("half")
    member.kill()
    assert not processes.is_running(member.process)
    assert rest_of(told) == []
    member.check()


def test_one_that_ends_by_itself_gives_its_own_error(start):
    member, _, _ = start("fails")
    with pytest.raises(YakError) as caught:
        wait_for_its_end(member)
    assert (caught.value.code, caught.value.why, caught.value.exit_code) == ("unreachable", "nobody listens", 3)
    member.join()  # what ended needs no more words


def test_one_that_crashes_is_an_error_with_its_last_line(start):
    member, _, _ = start("crashes")
    with pytest.raises(YakError) as caught:
        wait_for_its_end(member)
    assert (caught.value.code, caught.value.why) == ("demo-client", "boom")


def test_one_that_does_not_end_in_time_is_killed(start):
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
