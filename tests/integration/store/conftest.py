"""Both metadata stores: each test here runs against the one in memory and against a real Redis."""

import shutil
import tempfile

import pytest
import redis as redis_py
from support.stores import Caller, MemoryBackend, RedisBackend

from yak.local.redis_server import EmbeddedRedis


@pytest.fixture(scope="session")
def embedded():
    # Unix socket paths are short: not below pytest's long directories.
    directory = tempfile.mkdtemp(prefix="yak-")
    with EmbeddedRedis(directory) as server:
        yield server
    shutil.rmtree(directory)


@pytest.fixture
def connected(embedded):
    """A client of the Redis."""
    with redis_py.Redis.from_url(embedded.url) as client:
        yield client


@pytest.fixture(params=["memory", "redis"])
def backend(request):
    return MemoryBackend() if request.param == "memory" else RedisBackend(request.getfixturevalue("connected"))


@pytest.fixture
def one(backend):
    """Broker 1: the controller, and active."""
    return Caller(backend).join()
