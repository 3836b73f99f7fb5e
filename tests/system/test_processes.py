"""Processes and what they start."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
import trio

from tests.support.processes import ENVIRONMENT
from trio_mcp import connect
from trio_mcp.errors import CannotStart
from trio_mcp.system.processes import runnable
from trio_mcp.system.signals import ENDING
from trio_mcp.transports import ProcessOptions, open_process

WINDOWS = os.name == "nt"

WITH_CHILD = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
print(child.pid, flush=True)
"""


async def gone(pid: int) -> None:
    """Wait until a process has gone."""
    with trio.fail_after(120):
        while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
            await trio.sleep(0.05)  # nobody tells of processes that are not ours


@pytest.mark.requirement("L9")
async def test_a_server_is_started_called_and_ended(tmp_path: Path) -> None:
    program = tmp_path / "a server.py"
    program.write_text(
        "import trio\nfrom trio_mcp import Registry, serve\n"
        "registry = Registry('s', version='1')\n"
        "@registry.tool\nasync def echo(text: str) -> str:\n    return text\n"
        "trio.run(serve, registry)\n".replace("\\\n", "\n")
    )
    options = ProcessOptions(close_timeout=20, env={"PYTHONPATH": os.environ.get("PYTHONPATH", "")})
    async with connect(
        [sys.executable, program], process_options=options, connect_timeout=60, tool_timeout=60
    ) as client:
        text = 'all "kinds" of & < % ü 😀\r\n\t ^ characters' * 1000
        assert (await client.call_tool("echo", {"text": text})).text == text
        assert client.stray_output == []


@pytest.mark.requirement("L9")
@pytest.mark.parametrize("stays", [False, True])
async def test_what_a_process_has_started_goes_with_it(stays: bool) -> None:
    program = WITH_CHILD + ("time.sleep(60)" if stays else "")
    options = ProcessOptions(close_timeout=0.1 if stays else 20, terminate_timeout=0.1)
    async with open_process([sys.executable, "-c", program], options) as process:
        child = int(await process.receive_message())
        assert psutil.pid_exists(child)
    await gone(child)


@pytest.mark.requirement("L9")
async def test_what_a_process_has_started_may_stay() -> None:
    options = ProcessOptions(close_timeout=20, kill_children=False, stderr="ignore")
    async with open_process([sys.executable, "-c", WITH_CHILD], options) as process:
        child = int(await process.receive_message())
    assert psutil.pid_exists(child)
    psutil.Process(child).kill()
    await gone(child)


@pytest.mark.skipif(not WINDOWS, reason="the system sees to it on Windows alone")
@pytest.mark.requirement("L9")
async def test_processes_do_not_survive_who_has_started_them() -> None:
    program = (
        "import sys, trio\nfrom trio_mcp.transports import open_process\n"
        "async def main():\n"
        "    code = 'import time; print(1, flush=True); time.sleep(60)'\n"
        "    async with open_process([sys.executable, '-c', code]) as process:\n"
        "        await process.receive_message()\n"
        "        print(process.pid, flush=True)\n"
        "        await trio.sleep_forever()\n"
        "trio.run(main)\n"
    ).replace("\\\n", "\n")
    starter = await trio.lowlevel.open_process(
        [sys.executable, "-c", program], stdout=subprocess.PIPE
    )
    assert starter.stdout is not None
    with trio.fail_after(60):
        child = int(bytes(await starter.stdout.receive_some()))
        starter.kill()
        await starter.wait()
    await starter.stdout.aclose()
    await gone(child)


@pytest.mark.requirement("L9")
async def test_what_cannot_be_started_is_told() -> None:
    with pytest.raises(CannotStart, match="no-such-program cannot be started"):
        async with open_process(["no-such-program"]):
            pass


@pytest.mark.skipif(not WINDOWS, reason="a batch file")
@pytest.mark.requirement("L9")
async def test_a_batch_file_is_found_and_gets_its_arguments_as_they_are(tmp_path: Path) -> None:
    echo = "import sys; print(sys.argv[1:])"
    (tmp_path / "a tool.cmd").write_text(f'@"{sys.executable}" -c "{echo}" %*\r\n')
    options = ProcessOptions(close_timeout=20, env={"PATH": str(tmp_path)})
    given = ["plain", "with space", "a&echo b", "x|y>z", "caret^"]
    async with open_process(["a tool", *given], options) as process:
        assert (await process.receive_message()).decode().strip() == repr(given)


@pytest.mark.parametrize("argument", ["50%", 'say "no"', "two\nlines"])
@pytest.mark.skipif(not WINDOWS, reason="a batch file")
def test_what_a_batch_file_would_understand_is_refused(tmp_path: Path, argument: str) -> None:
    (tmp_path / "tool.bat").write_text("@rem")
    with pytest.raises(ValueError, match="cannot be passed safely"):
        runnable(["tool", argument], {"PATH": str(tmp_path)})


@pytest.mark.skipif(WINDOWS, reason="programs are looked for by their extensions")
def test_a_command_is_run_as_it_is() -> None:
    assert runnable(["tool", "50%"], {}) == ["tool", "50%"]


def test_a_second_signal_ends_the_process() -> None:
    code = "from trio_mcp.system.signals import *; end_by(ENDING[0])"
    status = subprocess.run([sys.executable, "-c", code], check=False).returncode
    assert status == (3 if WINDOWS else -signal.SIGINT)
    assert ENDING[0] is signal.SIGINT


@pytest.mark.long
@pytest.mark.requirement("L9")
def test_the_command_line_takes_paths_of_this_system(tmp_path: Path) -> None:
    (tmp_path / "sums.py").write_text(
        "from trio_mcp import Registry\n"
        "registry = Registry('sums', version='1')\n"
        "@registry.tool\nasync def add(a: int, b: int) -> int:\n    return a + b\n"
    )
    target = f"{tmp_path / 'sums.py'}:registry"  # with the letter of a drive, where there are some
    words = ["-m", "trio_mcp.cli", "call", target, "add", "a=1", "b=2"]
    done = subprocess.run(
        [sys.executable, *words], env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.returncode) == ("3\n", 0), done.stderr
