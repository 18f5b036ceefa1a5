"""The deployment, as far as it can be read without a Docker engine."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from temporalio.client import Client

from devserver import SEARCH_ATTRIBUTES, dev_server

ROOT = Path(__file__).parents[2]
COMPOSE_TEXT = (ROOT / "docker-compose.yml").read_text()
COMPOSE = shutil.which("docker-compose")
SERVICES = {"namespace", "postgresql", "schema", "temporal", "ui", "worker"}


def compose_config(*arguments: str) -> str:
    if COMPOSE is None:
        if os.environ.get("SIGNOFF_REQUIRE_ALL") == "1":
            pytest.fail("docker-compose is not here, and SIGNOFF_REQUIRE_ALL=1 wants every test to run")
        pytest.skip("docker-compose is not here")
    done = subprocess.run(
        [COMPOSE, "--file", ROOT / "docker-compose.yml", "config", *arguments],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert "variable is not set" not in done.stderr
    return done.stdout


def test_compose_accepts_the_file() -> None:
    assert compose_config("--quiet") == ""


def test_every_part_of_the_deployment_is_a_service() -> None:
    assert set(compose_config("--services").split()) == SERVICES


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
async def test_a_worker_is_healthy_while_it_is_connected() -> None:
    (check,) = re.findall(
        r'import sys;\n.*row\[3\] == "01" for row in rows\)\)', COMPOSE_TEXT, flags=re.DOTALL
    )
    code = " ".join(line.strip() for line in check.splitlines())

    def health(port: int) -> int:
        probe = code.replace(":1C41", f":{port:04X}")
        return subprocess.run([sys.executable, "-c", probe], timeout=30).returncode

    assert int("1C41", 16) == 7233
    async with dev_server() as server:
        client = await Client.connect(server.address)
        assert health(int(server.address.rpartition(":")[2])) == 0
        assert client.namespace == "default"  # still connected
    assert health(1) == 1


def test_every_image_has_a_version() -> None:
    images = re.findall(r"^\s+image: (.*)$", compose_config(), flags=re.MULTILINE)
    assert len(images) == len(SERVICES - {"worker"})
    for image in images:
        assert re.fullmatch(r"[a-z/-]+:[0-9][0-9.]*", image), image


def test_the_deployment_has_the_search_attributes_of_the_dev_server() -> None:
    script = (ROOT / "deploy" / "namespace.sh").read_text()
    listed = re.search(r"<<ATTRIBUTES\n(.*)^ATTRIBUTES$", script, flags=re.DOTALL | re.MULTILINE)
    assert listed is not None
    assert dict(line.split() for line in listed[1].splitlines()) == SEARCH_ATTRIBUTES


def test_the_scripts_are_plain_shell() -> None:
    for script in sorted((ROOT / "deploy").glob("*.sh")):
        done = subprocess.run(["sh", "-n", script], capture_output=True, text=True, timeout=10)
        assert done.returncode == 0, done.stderr


def test_each_mounted_file_exists() -> None:
    mounted = re.findall(r"^\s+- \./(\S+?):/", COMPOSE_TEXT, flags=re.MULTILINE)
    commands = re.findall(r'command: \["/(deploy/\S+)"\]', COMPOSE_TEXT)
    assert len(mounted) == 3
    assert len(commands) == 2
    for path in [*mounted, *commands]:
        assert (ROOT / path).exists(), path


def test_the_image_gets_every_module_that_is_installed() -> None:
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert "worker.py" in kept
    assert "requirements.lock" in kept
    for path in kept:
        assert (ROOT / path).exists(), path
