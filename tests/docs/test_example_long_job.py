"""The long job: it says how far it is, and whatever ends it early, it stops and cleans up."""

import hashlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from tests.support.processes import EXAMPLES, ROOT, TIME_LIMIT, python
from trio_mcp import Client, Limits, Registry, connect
from trio_mcp.cli.target import load_registry
from trio_mcp.client.connect import Target
from trio_mcp.errors import CallTimeout
from trio_mcp.transports.process import ProcessOptions

PROGRAM = EXAMPLES / "long_job.py"
ENDLESS = 2**40  # bytes that are not really there; reading them takes far longer than any test

Connect = Callable[[], AbstractAsyncContextManager[Client]]


@pytest.fixture(params=["modern, in process", "legacy, a process"])
def connected(request: pytest.FixtureRequest) -> Connect:
    """Connects to the example."""
    era, _, where = request.param.partition(", ")

    @asynccontextmanager
    async def connect_to() -> AsyncIterator[Client]:
        target: Target = python(PROGRAM) if where == "a process" else load_registry(str(PROGRAM))
        process = ProcessOptions(env={"PYTHONPATH": str(ROOT)})
        with trio.fail_after(TIME_LIMIT):
            async with connect(
                target, era=era, process_options=process, tool_timeout=TIME_LIMIT
            ) as client:
                yield client
                assert client.stderr() == ""

    return connect_to


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Three files, in two directories."""
    (tmp_path / "deep").mkdir()
    for name, text in (("a", b""), ("b", b"x\ny\n"), ("deep/c", b"\n" * 2_000_000)):
        (tmp_path / name).write_bytes(text)
    return tmp_path


@pytest.fixture
def endless(tmp_path: Path) -> Path:
    """A directory whose only file has no end that anybody would live to see."""
    with (tmp_path / "zeros").open("wb") as file:
        file.truncate(ENDLESS)
    return tmp_path


async def test_a_job_that_is_left_alone(connected: Connect, directory: Path) -> None:
    told: list[Any] = []
    arguments = {"directory": str(directory)}
    async with connected() as client:
        for _ in range(2):  # the second time the list of the first is there, and not in it
            told.clear()
            result = await client.call_tool(
                "write_checksums", arguments, on_progress=lambda *step: told.append(step)
            )
            assert result.text == "3 files, 2000004 bytes"
        assert (await client.call_tool("count_lines", {"file": str(directory / "b")})).text == "2"
        gone = await client.call_tool("write_checksums", {"directory": str(directory / "no")})
        assert gone.error == f"There is no directory {directory / 'no'}"
    assert told == [
        (4, 2000004, "b"),
        (4 + 2**20, 2000004, "c"),
        (2000004, 2000004, "c"),
    ]
    names = ["a", "b", "deep/c"]
    sums = [hashlib.sha256((directory / name).read_bytes()).hexdigest() for name in names]
    written = [f"{each}  {name}\n" for each, name in zip(sums, names, strict=True)]
    assert (directory / "SHA256SUMS").read_text() == "".join(written)
    assert not (directory / "SHA256SUMS.part").exists()


async def until_cleaned_up(client: Client, endless: Path) -> None:
    while (endless / "SHA256SUMS.part").exists():
        await client.ping()
    assert [each.name for each in endless.iterdir()] == ["zeros"]


async def test_cancelling_the_task_that_waits(connected: Connect, endless: Path) -> None:
    seen: list[bool] = []
    async with connected() as client:
        with trio.CancelScope() as scope:

            def cancel(*_: object) -> None:
                seen.append((endless / "SHA256SUMS.part").exists())
                scope.cancel()

            await client.call_tool(
                "write_checksums", {"directory": str(endless)}, on_progress=cancel
            )
        assert scope.cancelled_caught
        await until_cleaned_up(client, endless)
    assert seen[0]


async def test_the_clients_time_out(connected: Connect, endless: Path) -> None:
    async with connected() as client:
        with pytest.raises(CallTimeout, match=r"no answer within 0\.2 s"):
            await client.call_tool("write_checksums", {"directory": str(endless)}, timeout=0.2)
        await until_cleaned_up(client, endless)


async def test_the_tools_own_time_out(endless: Path, mock_clock: trio.testing.MockClock) -> None:
    registry = Registry("brief", tool_timeout=0.2)
    registry.add_tool(load_registry(str(PROGRAM)).tools["write_checksums"].function)
    told: list[Any] = []

    def time_passes(*step: Any) -> None:
        told.append(step)
        mock_clock.jump(0.2)

    with trio.fail_after(TIME_LIMIT):
        async with connect(registry) as client:
            result = await client.call_tool(
                "write_checksums",
                {"directory": str(endless)},
                timeout=TIME_LIMIT,
                on_progress=time_passes,
            )
            assert result.error == "Tool write_checksums timed out after 0.2 s"
            assert told
            assert [each.name for each in endless.iterdir()] == ["zeros"]


async def test_a_cancelled_thread_ends(endless: Path, directory: Path) -> None:
    """There is one thread; another call gets it when the first one has let go of it."""
    with trio.fail_after(TIME_LIMIT):
        limits = Limits(max_worker_threads=1)
        async with connect(load_registry(str(PROGRAM)), limits=limits) as client:
            with pytest.raises(CallTimeout):
                arguments = {"file": str(endless / "zeros")}
                await client.call_tool("count_lines", arguments, timeout=0.1)
            arguments = {"file": str(directory / "b")}
            result = await client.call_tool("count_lines", arguments, timeout=TIME_LIMIT)
            assert result.text == "2"
