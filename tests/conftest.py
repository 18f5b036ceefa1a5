"""One real Temporal dev server for a session of tests."""

import signal
from collections.abc import AsyncIterator

import pytest
from temporalio.client import Client

from converter import DATA_CONVERTER
from devserver import DevServer, dev_server

# A shell ignores Ctrl-C for what it runs in the background, and so would every process that the tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
async def server() -> AsyncIterator[DevServer]:
    async with dev_server() as started:
        yield started


@pytest.fixture(scope="session")
async def client(server: DevServer) -> Client:
    return await Client.connect(server.address, data_converter=DATA_CONVERTER)
