"""A house in which nobody says or does anything: for trees that must not run."""

from collections.abc import AsyncIterator

import pytest
from temporalio.client import Client

from tests.kit import House, house


@pytest.fixture(scope="session")
async def nobody(client: Client) -> AsyncIterator[House]:
    async with house(client) as h:
        yield h
