"""What the log says, and what it never says."""

import logging

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.support.client import serving
from tests.support.tools import each_revision, linger, registry_of, some_revisions, text_of
from trio_mcp import Context, Limits, McpError, Registry, ToolError

SECRET = "s3cret-sentinel"
INVALID = "invalid arguments"


@pytest.fixture
def calls(caplog):
    """The records that tell how calls ended."""
    caplog.set_level(logging.DEBUG)
    return lambda: [each for each in caplog.records if hasattr(each, "outcome")]


async def act(how: str, context: Context) -> str:
    """End in a way of the caller's choice, after a second."""
    await trio.sleep(1)
    match how:
        case "ok":
            return context.connection_id
        case "tool error":
            raise ToolError("no")
        case "mcp error":
            raise McpError(-1, "no")
        case "exception":
            raise ValueError("no")
        case "bad result":
            return object()
    await trio.sleep_forever()


@pytest.mark.requirement("B11", "G1")
@pytest.mark.parametrize(
    ("how", "outcome", "duration"),
    [
        ("ok", "ok", 1),
        ("tool error", "error", 1),
        ("mcp error", "error", 1),
        ("bad result", "error", 1),
        ("exception", "exception", 1),
        ("never", "timeout", 5),
    ],
)
async def test_how_a_call_ended(how, outcome, duration, autojump_clock, calls):
    async with serving(registry_of(act, tool_timeout=5)) as (client, _):
        connection = text_of(await client.call("act", how="ok"))
        id = await client.start("act", how=how)
        await client.receive()
        record = calls()[1]
    assert len(calls()) == 2
    assert record.levelno == logging.INFO
    assert record.tool == "act"
    assert record.outcome == outcome
    assert record.duration == duration
    assert record.request_id == id
    assert record.connection_id == connection
    assert "act" in record.getMessage()
    assert outcome in record.getMessage()


@pytest.mark.requirement("B11", "G1")
@pytest.mark.parametrize("more", [0, 3], ids=["obeys", "lingers"])
@pytest.mark.parametrize(
    ("how", "outcome"), [("peer", "cancelled"), ("eof", "cancelled"), ("deadline", "timeout")]
)
async def test_each_call_is_logged_once(how, outcome, more, autojump_clock, calls):
    """Also if it was answered before it ended."""
    limits = Limits(cancel_timeout=1)
    async with serving(registry_of(linger, tool_timeout=5), limits) as (client, _):
        id = await client.start("linger", seconds=50, more=more)
        await wait_all_tasks_blocked()
        if how == "peer":
            await client.cancel(id)
        elif how == "eof":
            await client.send_eof()
        await trio.sleep(30)
    [record] = calls()
    assert (record.tool, record.request_id, record.outcome) == ("linger", id, outcome)


@pytest.mark.requirement("G1")
async def test_a_call_that_never_ran_took_no_time(autojump_clock, calls):
    async with serving(registry_of(act), Limits(max_concurrent_calls=1)) as (client, _):
        await client.start("act", how="ok")
        waiting = await client.start("act", how="ok")
        await trio.sleep(0.5)
        await client.cancel(waiting)
        await client.receive()
    by_id = {each.request_id: each for each in calls()}
    assert by_id[waiting].outcome == "cancelled"
    assert by_id[waiting].duration == 0
    assert len(by_id) == 2


@pytest.mark.requirement("B11", "G1")
@some_revisions
@pytest.mark.parametrize(
    ("method", "params", "kind", "name", "outcome"),
    [
        ("tools/call", {"name": "act", "arguments": {"how": 5}}, "tool", "act", INVALID),
        ("tools/call", {"name": "act", "arguments": [1]}, "tool", "act", INVALID),
        ("tools/call", {"name": "remove"}, "tool", "remove", "not found"),
        ("tools/call", {"name": "a\nERROR \x1b[1m"}, "tool", "a\u240aERROR \u241b[1m", "not found"),
        ("tools/call", {"name": "x" * 1000}, "tool", "x" * 128, "not found"),
        ("tools/call", {"name": 5}, "tool", None, "not found"),
        ("prompts/get", {"name": "ask"}, "prompt", "ask", INVALID),
        ("prompts/get", {"name": "tell"}, "prompt", "tell", "not found"),
        ("resources/read", {"uri": f"x:{SECRET}"}, "resource", None, "not found"),
    ],
)
async def test_a_refused_call_is_logged_once(revision, method, params, kind, name, outcome, calls):
    registry = registry_of(act)
    registry.add_prompt(lambda topic: topic, name="ask")
    registry.add_resource("a:b", lambda: "b", name="b")
    async with serving(registry, revision=revision) as (client, _):
        answer = await client.request(method, params)
        assert "error" in answer or answer["result"]["isError"]
    [record] = calls()
    assert record.levelno == logging.INFO
    assert (getattr(record, kind), record.outcome, record.duration) == (name, outcome, 0)
    assert record.request_id == answer["id"]
    assert len(record.connection_id) == 16
    said = f"{'Unknown ' + kind if outcome == 'not found' else kind.capitalize()} {name or ''}"
    assert record.getMessage() == f"{said.rstrip()}: {outcome} in 0.0 ms"
    assert SECRET not in str(record.__dict__)


@pytest.mark.requirement("B6", "G1")
async def test_an_exception_is_logged_whole_and_can_be_found(autojump_clock, caplog):
    async with serving(registry_of(act)) as (client, _):
        answer = await client.call("act", how="exception")
    [record] = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert isinstance(record.exc_info[1], ValueError)
    assert record.exc_info[2] is not None
    assert record.tool == "act"
    assert record.request_id == answer["id"]
    assert len(record.connection_id) == 16


@pytest.mark.requirement("B11")
@each_revision
async def test_arguments_and_results_are_never_logged(revision, autojump_clock, caplog):
    """At no level, whatever becomes of the call; not even by Trio or warnings."""
    caplog.set_level(1)
    registry = Registry("test", tool_timeout=5)

    @registry.tool
    async def keep(password: str, how: str) -> str:
        """Use a secret."""
        await act(how, Context(tool="keep"))
        return password

    @registry.tool
    def plain(password: str) -> dict[str, str]:
        return {"password": password}

    @registry.tool(output_schema={"type": "object", "required": ["other"]})
    async def wrong(password: str) -> dict[str, str]:
        return {"password": password}

    hows = ["ok", "tool error", "mcp error", "exception", "bad result", "never"]
    async with serving(registry, Limits(cancel_timeout=0.5), revision=revision) as (client, _):
        for how in hows:
            await client.call("keep", password=SECRET, how=how)
        for name in ("plain", "wrong", "absent"):
            await client.call(name, password=SECRET)
        await client.call("plain", password=[SECRET])
        await client.call("plain", passwort=SECRET)
        await client.request("nonsense", {"password": SECRET})
        await client.notify("notifications/x", {"password": SECRET})
        await client.send({"jsonrpc": "2.0", "id": 99, "result": SECRET})
        await client.send_bytes(b'{"jsonrpc": "2.0", "id": 100, "' + SECRET.encode() + b"\n")
        await client.receive()
        id = await client.start("keep", password=SECRET, how="never")
        await client.cancel(id)
        await client.start("keep", password=SECRET, how="never")
        await client.send_eof()
        await client.receive_all()
    assert len(caplog.records) > 10
    for record in caplog.records:
        assert SECRET not in caplog.handler.format(record)
        assert SECRET not in str(record.__dict__)


@pytest.mark.requirement("B11")
async def test_nothing_is_logged_where_nobody_listens(caplog):
    caplog.set_level(logging.WARNING, "trio_mcp")
    async with serving(registry_of(act)) as (client, _):
        await client.request("ping")
    assert caplog.records == []
