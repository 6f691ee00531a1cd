"""The connection to Redis."""

import socket

import pytest
import trio
from trio.testing import memory_stream_pair

from yak.server.redis_client import ConnectionLost, RedisAddress, RedisClient


async def test_refused_connection_has_the_systems_message():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(ConnectionLost, match=f"^127.0.0.1:{port}: Connection refused$"):
        await RedisAddress("127.0.0.1", port).open(5.0)


async def test_answer_that_is_not_utf8_is_read_with_replacements():
    """INFO has the paths of the server's files, whatever bytes they have."""
    ours, theirs = memory_stream_pair()
    client = RedisClient(ours, "redis", 5.0)
    replies: list[object] = []
    answered = trio.Event()

    def on_reply(reply: object) -> None:
        replies.append(reply)
        answered.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.run)
        client.submit(("INFO",), on_reply)
        await theirs.receive_some()
        await theirs.send_all(b"$5\r\n/a/\xff\n\r\n")
        await answered.wait()
        nursery.cancel_scope.cancel()
    assert replies == ["/a/\ufffd\n"]


@pytest.mark.parametrize("tls", [False, True])
async def test_host_that_cannot_be_a_name_is_a_lost_connection(tls: bool):
    with pytest.raises(ConnectionLost, match=r"^a\.\.b:6379: "):
        await RedisAddress(host="a..b", tls=tls).open(5)
