"""The recipe for systemd: units that it accepts, and processes that do what the units say.

What systemd does is done by hand: it starts the command, waits until it is ready, sends the signals of
the unit, and is notified.
"""

from __future__ import annotations

import re
import shlex
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from tests.docs.recipes import RECIPES, address_of, ours
from tests.store.redis_server import free_port
from tests.support.processes import ENVIRONMENT, Server, running
from trio_mcp import HttpOptions, connect

pytestmark = pytest.mark.requirement("T6")

UNITS = sorted(RECIPES.glob("*.service"))
each_unit = pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)


def settings(unit: Path) -> dict[str, str]:
    """What a unit sets. None of ours sets the same thing twice."""
    text = unit.read_text().replace("\\\n", "")
    found = re.findall(r"^(\w+)=(.*)$", text, re.MULTILINE)
    assert len(dict(found)) == len(found)
    return dict(found)


def command(unit: Path, port: int) -> list[str]:
    """What a unit starts, at another port."""
    start = settings(unit)["ExecStart"].replace("%i", "8000")
    words = shlex.split(start.replace(":8000", f":{port}"))
    words[words.index("/srv/press/press.py")] = str(RECIPES / "press.py")
    return ours(words)


@pytest.mark.needs("systemd-analyze")
@each_unit
def test_systemd_finds_nothing_in_a_unit_and_little_that_it_could_do_without(
    unit: Path, tmp_path: Path
) -> None:
    # The program has to be there.
    text = unit.read_text().replace("/srv/press/venv/bin/trio-mcp", sys.executable)
    (tmp_path / unit.name).write_text(text)
    name = tmp_path / unit.name
    done = subprocess.run(
        ["systemd-analyze", "--man=no", "verify", name], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--no-pager", "--threshold=20", name],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"exposed by more than 2.0:\n{done.stdout}"


@each_unit
def test_a_unit_gives_calls_their_time(unit: Path) -> None:
    found = settings(unit)
    words = shlex.split(found["ExecStart"])
    grace = float(words[words.index("--shutdown-grace") + 1])
    assert float(found["TimeoutStopSec"]) >= grace + 5
    assert found["Type"] == "notify"


async def finished_by(server: Server, port: int, number: int) -> None:
    """Send a signal while a call runs, which is answered all the same."""
    sent: list[int] = []

    def send(*_: object) -> None:
        if not sent:
            server.signal(number)
        sent.append(number)

    http = HttpOptions(trust_env=False)
    async with connect(f"http://127.0.0.1:{port}/mcp", http=http) as client:
        arguments = {"title": "Emma", "copies": 10}
        result = await client.call_tool("print_book", arguments, on_progress=send)
    assert result.text == "10 copies of Emma"


@pytest.mark.long
@each_unit
async def test_what_a_unit_starts_is_ready_reloads_and_stops(unit: Path, tmp_path: Path) -> None:
    found = settings(unit)
    with trio.socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        await manager.bind(str(tmp_path / "notify"))
        port = free_port()
        environment = ENVIRONMENT | {"NOTIFY_SOCKET": str(tmp_path / "notify"), "STATE_KEYS": ""}
        async with running(command(unit, port), env=environment) as server:
            assert await manager.recv(100) == b"READY=1"
            assert await address_of(server) == f"127.0.0.1:{port}"
            if "ExecReload" in found:
                assert found["ExecReload"] == "/bin/kill -HUP $MAINPID"
                await finished_by(server, port, signal.SIGHUP)
                assert (await manager.recv(100)).startswith(b"RELOADING=1")
                assert await manager.recv(100) == b"READY=1"
            with trio.fail_after(float(found["TimeoutStopSec"])):
                await finished_by(server, port, signal.SIGTERM)
                assert await manager.recv(100) == b"STOPPING=1"
                assert await server.exit() == 0
