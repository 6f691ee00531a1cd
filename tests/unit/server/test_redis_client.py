"""The connection to Redis."""

import socket

import pytest

from yak.server.redis_client import ConnectionLost, RedisAddress


async def test_refused_connection_has_the_systems_message():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(ConnectionLost, match=f"^127.0.0.1:{port}: Connection refused$"):
        await RedisAddress("127.0.0.1", port).open(5.0)
