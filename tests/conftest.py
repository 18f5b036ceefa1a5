"""One real Temporal dev server for a session of tests."""

from collections.abc import AsyncIterator

import pytest
from temporalio.client import Client

from converter import DATA_CONVERTER
from devserver import DevServer, dev_server


@pytest.fixture(scope="session")
async def server() -> AsyncIterator[DevServer]:
    async with dev_server() as started:
        yield started


@pytest.fixture(scope="session")
async def client(server: DevServer) -> Client:
    return await Client.connect(server.address, data_converter=DATA_CONVERTER)
