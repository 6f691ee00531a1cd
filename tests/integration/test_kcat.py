"""Debian's kcat, an older librdkafka: it produces, consumes, lists, and asks by time."""

import json
import shutil
import subprocess
from typing import Any

import pytest
from support.client_kinds import ALL_CODECS, Confluent, Message

pytestmark = [
    pytest.mark.kcat,
    pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not on PATH: apt-get install kcat"),
]
T0 = 1_700_000_000_000


def kcat(broker: Any, *arguments: str, send: bytes = b"") -> bytes:
    done = subprocess.run(["kcat", "-b", broker.bootstrap, *arguments], input=send, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


@pytest.fixture
def topic(module_broker, unique_topic):
    Confluent(module_broker.bootstrap).create_topic(unique_topic, configs={"retention.ms": "-1"})
    return unique_topic


def test_kcat_lists_brokers_and_topics(module_broker, topic):
    found = json.loads(kcat(module_broker, "-L", "-J"))
    assert [broker["name"] for broker in found["brokers"]] == [module_broker.bootstrap]
    (described,) = [each for each in found["topics"] if each["topic"] == topic]
    assert [partition["leader"] for partition in described["partitions"]] == [1]


def test_a_topic_is_made_by_writing_to_it(module_broker, unique_topic):
    kcat(module_broker, "-P", "-t", unique_topic, send=b"first\n")
    assert kcat(module_broker, "-C", "-t", unique_topic, "-o", "beginning", "-e", "-q") == b"first\n"


@pytest.mark.parametrize("codec", ALL_CODECS)
def test_every_codec_goes_in_and_out(module_broker, topic, codec):
    lines = b"".join(b"key%d:value %d %s\n" % (i, i, b"x" * 200) for i in range(50))
    kcat(module_broker, "-P", "-t", topic, "-p", "0", "-K:", "-z", codec, "-X", "linger.ms=50", send=lines)
    assert kcat(module_broker, "-C", "-t", topic, "-o", "beginning", "-e", "-q", "-K:") == lines
    log = next((module_broker.data_dir / f"{topic}-0").glob("*.log")).read_bytes()
    assert log[22] & 7 == ALL_CODECS.index(codec), "kcat did not compress, or we did not keep it"


def test_headers_null_keys_and_null_values(module_broker, topic):
    kcat(module_broker, "-P", "-t", topic, "-p", "0", "-K:", "-Z", "-H", "a=1", "-H", "b=2", send=b"k:\n:v\n")
    out = kcat(module_broker, "-C", "-t", topic, "-o", "beginning", "-e", "-q", "-J")
    found = [json.loads(line) for line in out.splitlines()]
    assert [(each["key"], each["payload"]) for each in found] == [("k", None), (None, "v")]
    assert found[0]["headers"] == ["a", "1", "b", "2"]


def test_an_idempotent_producer(module_broker, topic):
    kcat(module_broker, "-P", "-t", topic, "-p", "0", "-X", "enable.idempotence=true", send=b"one\ntwo\n")
    assert kcat(module_broker, "-C", "-t", topic, "-o", "beginning", "-e", "-q") == b"one\ntwo\n"


def test_kcat_seeks_by_time_and_by_offset(module_broker, topic):
    messages = [Message(b"%d" % i, timestamp_ms=T0 + 1000 * i) for i in range(5)]
    Confluent(module_broker.bootstrap).produce(topic, messages)
    read = ("-C", "-t", topic, "-p", "0", "-e", "-q")
    assert kcat(module_broker, *read, "-o", f"s@{T0 + 2500}") == b"3\n4\n"
    assert kcat(module_broker, *read, "-o", f"s@{T0 + 1000}", "-o", f"e@{T0 + 3000}") == b"1\n2\n"
    assert kcat(module_broker, *read, "-o", "-2") == b"3\n4\n"
    assert kcat(module_broker, *read, "-o", "4") == b"4\n"
    assert kcat(module_broker, "-Q", "-t", f"{topic}:0:{T0 + 2000}") == f"{topic} [0] offset 2\n".encode()
