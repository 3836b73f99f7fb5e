"""From start to end of input: what a client sees of a server that is a process."""

import sys

import pytest

from tests.support.client import CLIENT_INFO, MODERN, REVISIONS, RawClient
from tests.support.processes import (
    EXAMPLES,
    call,
    complaints,
    lines,
    parse,
    ping,
    python,
    run,
    running,
    text_of,
    workshop,
)

CALCULATOR = python(EXAMPLES / "calculator.py")


@pytest.mark.requirement("A1")
async def test_end_of_input_ends_the_process_with_status_0() -> None:
    async with running(CALCULATOR) as server:
        await server.client.initialize()
        assert text_of(await server.client.call("add", a=1, b=2)) == "3.0"
        assert await server.finish() == 0
        assert await server.client.receive() is None
    assert complaints(server.stderr) == []


@pytest.mark.requirement("A1")
async def test_no_input_at_all_is_served_quietly() -> None:
    done = await run(CALCULATOR)
    assert (done.returncode, done.stdout, complaints(done.stderr)) == (0, b"", [])


@pytest.mark.requirement("A8", "A9")
async def test_every_revision_is_served_and_both_eras_share_a_connection() -> None:
    async with running(CALCULATOR) as server:
        for revision in [*REVISIONS, *reversed(REVISIONS)]:
            client = RawClient(server.client.stream, revision)
            hello = await client.initialize()
            if hello is None:
                hello = await client.request("server/discover")
                assert revision in hello["result"]["supportedVersions"]
            else:
                assert hello["result"]["protocolVersion"] == revision
            listed = (await client.request("tools/list"))["result"]["tools"]
            assert [tool["name"] for tool in listed] == ["add", "subtract", "multiply", "divide"]
            answer = await client.call("multiply", a=6, b=7)
            assert text_of(answer) == "42.0"
            assert ("resultType" in answer["result"]) is (revision in MODERN)
        assert await server.finish() == 0


@pytest.mark.requirement("A10")
async def test_a_request_from_a_shell_pipe() -> None:
    request = '{"jsonrpc":"2.0","id":"1","method":"tools/list","params":null}'
    script = 'request=$1; shift; echo "$request" | "$@"'
    done = await run(["/bin/sh", "-c", script, "sh", request, *CALCULATOR])
    assert done.returncode == 0
    (answer,) = parse(done.stdout)
    assert answer["id"] == "1"
    assert len(answer["result"]["tools"]) == 4
    assert complaints(done.stderr) == []


@pytest.mark.requirement("A3", "B8")
async def test_half_a_request_and_then_the_end_of_input() -> None:
    done = await run(CALCULATOR, lines(ping(1)) + b'{"jsonrpc":"2.0","id":2,"meth')
    assert done.returncode == 0
    answered, refused = parse(done.stdout)
    assert answered == {"jsonrpc": "2.0", "id": 1, "result": {}}
    assert refused["id"] == ""
    assert refused["error"]["code"] == -32700


@pytest.mark.requirement("A3", "A8")
async def test_a_client_may_have_any_name_and_send_its_bytes_one_by_one() -> None:
    info = {**CLIENT_INFO, "name": "x" * 10_000, "unknown": [1]}
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info}
    async with running(CALCULATOR) as server:
        answer = await server.client.request("initialize", params)
        assert answer["result"]["serverInfo"] == {"name": "calculator", "version": "1.0"}
        for byte in lines(call("é", "add", a=1, b=2)):
            await server.client.send_bytes(bytes([byte]))
        answer = await server.client.receive()
        assert answer["id"] == "é"
        assert text_of(answer) == "3.0"


@pytest.mark.requirement("A3", "A4", "A6")
async def test_what_is_no_message_is_answered_and_the_next_one_is_served() -> None:
    garbage = [b"{", b"\xff\xfe", b"[]", b"42", b'{"jsonrpc":"1.0","id":1,"method":"ping"}']
    blank = b"\n \t\r\n\n"
    last = lines(ping(9)).rstrip()  # needs no newline, as the input ends
    done = await run(CALCULATOR, blank.join([*(each + b"\n" for each in garbage), last]))
    *refused, served = parse(done.stdout)
    assert [each["error"]["code"] for each in refused] == [-32700, -32700, -32600, -32600, -32600]
    assert [each["id"] for each in refused] == ["", "", "", "", 1]
    assert served == {"jsonrpc": "2.0", "id": 9, "result": {}}
    assert done.returncode == 0


@pytest.mark.requirement("A16")
async def test_a_shutdown_request_ends_the_process_while_its_input_is_open() -> None:
    async with running(workshop()) as server:
        answer = await server.client.request("shutdown")
        assert answer["result"] == {}
        assert await server.client.receive() is None
        assert await server.exit() == 0


@pytest.mark.requirement("B10")
async def test_the_states_are_told_in_order() -> None:
    async with running(workshop()) as server:
        await server.said(b"running")
        assert await server.finish() == 0
    states = (b"running", b"draining", b"stopped")
    assert [line for line in server.stderr.split(b"\n") if line in states] == list(states)


ORPHAN = 'exec 3<&0; "$@" <&3 & wait'
"""A shell that starts a server; whoever started the shell keeps the other ends of its pipes."""


@pytest.mark.requirement("S1")
async def test_a_server_whose_parent_has_died_ends_though_its_input_is_open() -> None:
    async with running(["/bin/sh", "-c", ORPHAN, "sh", *workshop()]) as server:
        await server.client.initialize()
        server.process.kill()
        assert await server.client.receive() is None
        await server.said(b"stopped")
    assert b"The process that has started this server has ended" in server.stderr


@pytest.mark.requirement("S1")
async def test_a_server_that_outlives_its_parent_ends_with_its_input() -> None:
    options = ["serve", str(EXAMPLES / "calculator.py"), "--outlive-parent", "--log-level=debug"]
    command = [sys.executable, "-m", "trio_mcp.cli", *options]
    async with running(["/bin/sh", "-c", ORPHAN, "sh", *command]) as server:
        await server.client.initialize()
        server.process.kill()
        await server.process.wait()
        assert text_of(await server.client.call("add", a=1, b=2)) == "3.0"
        assert server.process.stdin is not None
        await server.process.stdin.aclose()
        assert await server.client.receive() is None
    assert b"has ended" not in server.stderr


@pytest.mark.requirement("S1")
async def test_a_tool_that_runs_when_the_parent_dies_has_its_time() -> None:
    async with running(["/bin/sh", "-c", ORPHAN, "sh", *workshop(shutdown_grace=0.1)]) as server:
        await server.client.initialize()
        await server.client.send(call(1, "forever"))
        await server.said(b"forever runs")
        server.process.kill()
        assert await server.client.receive() is not None, "it is answered, and cancelled"
        assert await server.client.receive() is None
