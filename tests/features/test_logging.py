"""Log messages to the client: the handler's own, and those of the standard library."""

import io
import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import lockstep_stream_pair, memory_stream_pair, wait_all_tasks_blocked

from tests.features import workroom_client
from tests.features.ways import client_of, each_quick_client, each_way
from tests.support.client import LEGACY, MODERN, RawClient, modern_meta, serving
from tests.support.tools import (
    each_revision,
    echo,
    error_of,
    failure_of,
    registry_of,
    some_revisions,
    text_of,
)
from trio_mcp import (
    Context,
    Handlers,
    Limits,
    Registry,
    ToolError,
    connect,
    handle_message,
    serve_stream,
)

pytestmark = pytest.mark.requirement("H7")

LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
LOG_LEVEL = "io.modelcontextprotocol/logLevel"

each_legacy_revision = pytest.mark.parametrize("revision", [LEGACY[0], LEGACY[-1]])


def speaking(*messages: Any) -> Registry:
    """A registry with a tool `speak` that logs each of these: level and data."""

    async def speak(context: Context) -> str:
        for level, data in messages:
            await context.log(level, data)
        return "done"

    return registry_of(speak)


AT_EVERY_LEVEL = [(level, level) for level in LEVELS]


async def at_level(client: RawClient, level: str, method: str = "", **params: Any) -> Any:
    """Send a request (or call `speak`) that wants to hear messages of a level."""
    if client.revision in LEGACY:
        answer = await client.request("logging/setLevel", {"level": level})
        assert answer["result"] == {}
        meta = {}
    else:
        meta = {"_meta": {LOG_LEVEL: level}}
    params = params or {"name": "speak"}
    return await client.request(method or "tools/call", {**params, **meta})


def told(client: RawClient) -> list[dict[str, Any]]:
    """The log messages that came before an answer, each once."""
    messages = [each["params"] for each in client.told if each["method"] == "notifications/message"]
    client.told.clear()
    return messages


def heard(client: RawClient) -> list[Any]:
    """What they say."""
    return [each["data"] for each in told(client)]


# -- which messages -------------------------------------------------------------------------------


@some_revisions
@pytest.mark.parametrize("level", LEVELS)
async def test_messages_of_a_level_and_above_are_sent(revision, level):
    async with serving(speaking(*AT_EVERY_LEVEL), revision=revision) as (client, _):
        assert text_of(await at_level(client, level)) == "done"
        expected = LEVELS[LEVELS.index(level) :]
        assert told(client) == [{"level": each, "data": each} for each in expected]


@each_revision
async def test_what_is_sent_to_a_client_that_says_nothing(revision):
    """Legacy: from `info` on. Modern: nothing, as the revision demands."""
    async with serving(speaking(*AT_EVERY_LEVEL), revision=revision) as (client, _):
        await client.call("speak")
        assert heard(client) == (LEVELS[1:] if revision in LEGACY else [])


@each_legacy_revision
async def test_a_legacy_level_holds_for_its_connection(revision):
    registry = speaking(*AT_EVERY_LEVEL)
    async with serving(registry, revision=revision) as (first, _):
        async with serving(registry, revision=revision) as (second, _):
            await at_level(first, "alert")
            await at_level(second, "critical")
            for client, expected in [(first, LEVELS[6:]), (second, LEVELS[5:])] * 2:
                told(client)
                await client.call("speak")
                assert heard(client) == expected


async def test_a_modern_level_holds_for_its_request():
    async with serving(speaking(*AT_EVERY_LEVEL), revision=MODERN[0]) as (client, _):
        await at_level(client, "alert")
        assert heard(client) == LEVELS[6:]
        await client.call("speak")
        assert heard(client) == []
        await at_level(client, "emergency")
        assert heard(client) == LEVELS[7:]


async def test_modern_requests_have_their_own_levels_at_the_same_time():
    go_on = trio.Event()

    async def speak(context: Context) -> str:
        await go_on.wait()
        for level in LEVELS:
            await context.log(level, {"of": context.request_id, "level": level})  # type: ignore[arg-type]
        return "done"

    async with serving(registry_of(speak), revision=MODERN[0]) as (client, _):
        requests = [
            client.request_of("tools/call", {"name": "speak", "_meta": {LOG_LEVEL: level}})
            for level in ("debug", "critical", "emergency")
        ]
        requests.append(client.request_of("tools/call", {"name": "speak"}))
        await client.send(*requests)
        await wait_all_tasks_blocked()
        go_on.set()
        counts = dict.fromkeys((each["id"] for each in requests), 0)
        answered: set[Any] = set()
        while len(answered) < len(requests):
            message = await client.receive()
            if "id" in message:
                answered.add(message["id"])
            else:
                id = message["params"]["data"]["of"]
                assert id not in answered
                counts[id] += 1
        assert list(counts.values()) == [8, 3, 1, 0]


async def test_both_eras_on_one_connection():
    async with serving(speaking(*AT_EVERY_LEVEL)) as (client, _):
        await at_level(client, "alert")
        assert heard(client) == LEVELS[6:]
        client.revision = MODERN[0]
        await client.call("speak")
        assert heard(client) == []
        await at_level(client, "debug")
        assert heard(client) == LEVELS
        client.revision = LEGACY[-1]
        await client.call("speak")
        assert heard(client) == LEVELS[6:]


@pytest.mark.requirement("A12")
@some_revisions
@pytest.mark.parametrize("level", ["loud", "INFO", "", 20, None, True, ["info"], {}])
async def test_a_level_that_is_none_is_refused(revision, level):
    async with serving(speaking(*AT_EVERY_LEVEL), revision=revision) as (client, _):
        if revision in LEGACY:
            answer = await client.request("logging/setLevel", {"level": level})
        else:
            params = {"name": "speak", "_meta": {LOG_LEVEL: level}}
            answer = await client.request("tools/call", params)
        code, message = error_of(answer)
        assert code == -32602
        assert "level" in message
        if isinstance(level, str):
            assert "emergency" in message  # the text names those that there are
        assert heard(client) == []
        await client.call("speak")
        assert heard(client) == (LEVELS[1:] if revision in LEGACY else [])


@each_legacy_revision
async def test_the_level_must_be_there(revision):
    async with serving(registry_of(echo), revision=revision) as (client, _):
        for params in ({}, None):
            code, message = error_of(await client.request("logging/setLevel", params))
            assert code == -32602
            assert '"level"' in message


async def test_modern_revisions_have_no_set_level():
    async with serving(registry_of(echo), revision=MODERN[0]) as (client, _):
        code, message = error_of(await client.request("logging/setLevel", {"level": "info"}))
        assert code == -32601
        assert "logging/setLevel" in message


@each_revision
async def test_the_capability_is_declared(revision):
    async with serving(registry_of(echo), revision=revision, shake_hands=False) as (client, _):
        hello = await client.initialize() or await client.request("server/discover")
        assert hello["result"]["capabilities"]["logging"] == {}


# -- what they hold -------------------------------------------------------------------------------


@some_revisions
@pytest.mark.parametrize(
    "data",
    [
        "text",
        "",
        "ünï 😀\nline",
        0,
        -1.5,
        2**53,
        10**30,
        True,
        None,
        [],
        [1, "a", None],
        {"a": {"b": []}},
    ],
)
async def test_a_message_is_any_json(revision, data):
    async with serving(speaking(("error", data)), revision=revision) as (client, _):
        await at_level(client, "error")
        assert told(client) == [{"level": "error", "data": data}]


@each_revision
async def test_the_logger_may_be_named_and_every_level_has_a_name(revision):
    async def speak(context: Context) -> str:
        await context.debug(1)
        await context.info(2, logger="a")
        await context.log("notice", 3, logger="")
        await context.warning(4)
        await context.error(5)
        await context.log("critical", 6)
        await context.log("alert", 7)
        await context.log("emergency", 8, logger="z")
        return "done"

    async with serving(registry_of(speak), revision=revision) as (client, _):
        await at_level(client, "debug")
        messages = told(client)
        assert [(each["level"], each["data"]) for each in messages] == list(
            zip(LEVELS, range(1, 9), strict=True)
        )
        assert [each.get("logger") for each in messages] == [None, "a", "", *[None] * 4, "z"]


@some_revisions
@pytest.mark.parametrize(
    ("level", "data", "error"),
    [
        ("loud", "x", ValueError),
        ("WARNING", "x", ValueError),
        ("error", object(), TypeError),
        ("error", {1, 2}, TypeError),
        ("error", float("nan"), TypeError),
        ("error", {"a": float("inf")}, TypeError),
    ],
)
async def test_what_is_no_message_is_refused(revision, level, data, error):
    async def speak(context: Context) -> str:
        with pytest.raises(error):
            await context.log(level, data)
        await context.error("fine")
        return "done"

    async with serving(registry_of(speak), revision=revision) as (client, _):
        assert text_of(await at_level(client, "error")) == "done"
        assert heard(client) == ["fine"]


@some_revisions
@pytest.mark.parametrize("ending", ["answer", "error", "failure"])
async def test_messages_come_before_the_answer_and_in_order(revision, ending):
    async def speak(context: Context) -> str:
        for number in range(100):
            await context.error(number)
        if ending == "error":
            raise RuntimeError
        if ending == "failure":
            raise ToolError("no")
        return "done"

    async with serving(registry_of(speak), revision=revision) as (client, _):
        answer = await at_level(client, "error")
        assert ("isError" in answer["result"]) is (ending != "answer")
        assert heard(client) == list(range(100))


@each_revision
async def test_prompts_resources_and_completions_log_too(revision):
    registry = Registry("test")

    @registry.prompt
    async def letter(to: str, context: Context) -> str:
        await context.error("prompt")
        return "Dear"

    @registry.resource("config://app")
    def config(context: Context) -> str:
        trio.from_thread.run(context.error, "resource")
        return "x"

    @registry.completion(prompt="letter", argument="to")
    async def names(value: str, context: Context) -> list[str]:
        await context.error("completion")
        return []

    ref = {"type": "ref/prompt", "name": "letter"}
    async with serving(registry, revision=revision) as (client, _):
        await at_level(client, "error", "prompts/get", name="letter", arguments={"to": "x"})
        await at_level(client, "error", "resources/read", uri="config://app")
        await at_level(
            client, "error", "completion/complete", ref=ref, argument={"name": "to", "value": ""}
        )
        assert heard(client) == ["prompt", "resource", "completion"]


@pytest.mark.requirement("B7")
@each_revision
async def test_nothing_is_said_after_the_end(revision):
    """Neither after an answer nor after a cancellation."""
    contexts: list[Context] = []

    async def speak(context: Context, wait: bool = False) -> str:
        contexts.append(context)
        if wait:
            try:
                await trio.sleep_forever()
            finally:
                with trio.CancelScope(shield=True):
                    await context.log("emergency", "cancelled")
        return "done"

    async with serving(registry_of(speak), revision=revision) as (client, _):
        await at_level(client, "debug")
        await contexts[0].log("emergency", "answered")
        params = {"name": "speak", "arguments": {"wait": True}, "_meta": {LOG_LEVEL: "debug"}}
        request = client.request_of("tools/call", params)
        await client.send(request)
        await wait_all_tasks_blocked()
        await client.cancel(request["id"])
        await wait_all_tasks_blocked()
        assert text_of(await client.call("speak")) == "done"
        assert heard(client) == []


async def test_where_there_is_no_way_back_messages_are_dropped():
    async def speak(context: Context) -> str:
        await context.error("x")
        return "done"

    registry = registry_of(speak)
    assert await registry.call("speak") == "done"
    answer = await handle_message(
        registry,
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"speak"}}',
    )
    assert answer is not None
    assert b'"done"' in answer


async def test_a_client_that_does_not_read_makes_the_handler_wait():
    count = 0

    async def speak(context: Context) -> str:
        nonlocal count
        while True:
            await context.error("x" * 10_000)
            count += 1

    limits = Limits(max_outgoing_bytes=100_000)
    async with serving(registry_of(speak), limits, pair=lockstep_stream_pair) as (client, _):
        id = await client.start("speak")
        await wait_all_tasks_blocked()
        assert 0 < count < 100
        await client.cancel(id)


# -- the bridge from the standard library ---------------------------------------------------------


@pytest.fixture
def source() -> Iterator[logging.Logger]:
    """A logger of a program's own."""
    logger = logging.getLogger("program.part")
    logger.setLevel(logging.DEBUG)
    yield logger
    logger.handlers.clear()
    logger.setLevel(logging.NOTSET)


@each_revision
async def test_the_log_of_the_standard_library_goes_to_the_caller(revision, source):
    async def work() -> str:
        source.info("working on %s", "it")
        source.debug("too fine")
        return "done"

    registry = registry_of(work)
    source.addHandler(registry.log_handler())
    async with serving(registry, revision=revision) as (client, _):
        assert text_of(await at_level(client, "debug", name="work")) == "done"
        assert told(client) == [
            {"level": "info", "logger": "program.part", "data": "working on it"}
        ]
        await at_level(client, "warning", name="work")
        assert told(client) == []
        if revision in MODERN:
            await client.call("work")
            assert told(client) == []


@pytest.mark.parametrize(
    ("python", "expected"),
    [
        (1, "debug"),
        (logging.DEBUG, "debug"),
        (19, "debug"),
        (logging.INFO, "info"),
        (24, "info"),
        (25, "notice"),
        (29, "notice"),
        (logging.WARNING, "warning"),
        (35, "warning"),
        (logging.ERROR, "error"),
        (49, "error"),
        (logging.CRITICAL, "critical"),
        (59, "critical"),
        (60, "alert"),
        (70, "emergency"),
        (1000, "emergency"),
    ],
)
async def test_levels_are_translated(python, expected, source):
    async def work() -> str:
        source.log(python, "x")
        return "done"

    registry = registry_of(work)
    source.setLevel(1)
    source.addHandler(registry.log_handler(1))
    async with serving(registry, revision=MODERN[0]) as (client, _):
        await at_level(client, "debug", name="work")
        assert [each["level"] for each in told(client)] == [expected]


@pytest.mark.parametrize("level", ["LOUD", -1.5, None, [10]])
def test_a_level_that_logging_does_not_know(level):
    registry = Registry("test")
    with pytest.raises((ValueError, TypeError)):
        registry.log_handler(level)


@each_revision
async def test_all_kinds_of_handlers_log_in_threads_and_in_tasks(revision, source):
    registry = Registry("test")

    async def child(text: str) -> None:
        await trio.lowlevel.checkpoint()
        source.warning(text)

    @registry.tool
    async def tool() -> str:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(child, "tool")
        return "done"

    @registry.tool
    def plain() -> str:
        for number in range(20):
            source.warning("plain %d", number)
        trio.from_thread.run(child, "back from thread")
        return threading.current_thread().name

    @registry.prompt
    def letter(to: str) -> str:
        source.warning("prompt")
        return "Dear"

    @registry.resource("config://app")
    async def config() -> str:
        await trio.to_thread.run_sync(source.warning, "resource")
        return "x"

    @registry.completion(prompt="letter", argument="to")
    async def names(value: str) -> list[str]:
        source.warning("completion")
        return []

    source.addHandler(registry.log_handler())
    ref = {"type": "ref/prompt", "name": "letter"}
    async with serving(registry, revision=revision) as (client, _):
        await at_level(client, "info", name="tool")
        assert heard(client) == ["tool"]
        assert text_of(await at_level(client, "info", name="plain")) != "MainThread"
        assert heard(client) == [f"plain {number}" for number in range(20)] + ["back from thread"]
        await at_level(client, "info", "prompts/get", name="letter", arguments={"to": "x"})
        await at_level(client, "info", "resources/read", uri="config://app")
        await at_level(
            client, "info", "completion/complete", ref=ref, argument={"name": "to", "value": ""}
        )
        assert heard(client) == ["prompt", "resource", "completion"]


@each_revision
async def test_tracebacks_stay_at_home(revision, source):
    async def work() -> str:
        try:
            raise LookupError("swordfish")
        except LookupError:
            source.exception("it failed")
            source.error("with the stack", stack_info=True)
        return "done"

    kept = io.StringIO()
    registry = registry_of(work)
    source.addHandler(registry.log_handler())
    source.addHandler(logging.StreamHandler(kept))  # comes second, and still has everything
    async with serving(registry, revision=revision) as (client, _):
        await at_level(client, "info", name="work")
        messages = told(client)
        assert [each["data"] for each in messages] == ["it failed", "with the stack"]
        assert "Traceback" not in str(messages)
        assert "swordfish" in kept.getvalue()
        assert "Stack" in kept.getvalue()


async def test_a_formatter_writes_the_text(source):
    async def work() -> str:
        source.error("it failed", exc_info=ValueError("swordfish"))
        return "done"

    registry = registry_of(work)
    handler = registry.log_handler()
    handler.setFormatter(logging.Formatter("<%(levelname)s> %(message)s"))
    source.addHandler(handler)
    async with serving(registry) as (client, _):
        await at_level(client, "info", name="work")
        assert heard(client) == ["<ERROR> it failed"]


async def test_a_record_that_cannot_be_formatted_ends_nothing(source, capsys):
    async def work() -> str:
        source.error("%d", "no number")
        source.error("half \ud800 a character")
        return "done"

    registry = registry_of(work)
    source.addHandler(registry.log_handler())
    source.propagate = False  # to pytest, which is strict about such records
    try:
        async with serving(registry) as (client, _):
            assert text_of(await at_level(client, "info", name="work")) == "done"
            assert heard(client) == ["half ? a character"]
    finally:
        source.propagate = True
    assert "no number" in capsys.readouterr().err


@each_revision
async def test_outside_of_requests_it_goes_nowhere(revision, source):
    """Before and after a request, in the lifespan, and in tasks that outlive their request."""
    answered, logged = trio.Event(), trio.Event()

    @asynccontextmanager
    async def lifespan(registry):
        source.warning("lifespan")
        async with trio.open_nursery() as nursery:
            yield nursery

    async def late() -> None:
        await answered.wait()
        source.warning("late")
        logged.set()

    async def work(context: Context) -> str:
        source.warning("work")
        context.lifespan.start_soon(late)
        return "done"

    registry = registry_of(work, echo, lifespan=lifespan)
    source.addHandler(registry.log_handler())
    async with serving(registry, revision=revision) as (client, _):
        source.warning("before")
        await at_level(client, "debug", name="work")
        source.warning("after")
        answered.set()
        await logged.wait()
        await client.call("echo", text="x")
        assert heard(client) == ["work"]


@each_revision
async def test_a_thread_that_is_left_behind_is_not_heard(revision, source, mock_clock):
    begun, go_on, logged = threading.Event(), threading.Event(), threading.Event()

    def work() -> str:
        source.warning("begin")
        begun.set()
        go_on.wait()
        source.warning("end")
        logged.set()
        return "done"

    registry = registry_of(echo)
    registry.add_tool(work, timeout=1)
    source.addHandler(registry.log_handler())

    async def time_out() -> None:
        await trio.to_thread.run_sync(begun.wait, abandon_on_cancel=True)
        mock_clock.jump(1)

    try:
        async with serving(registry, revision=revision) as (client, _), trio.open_nursery() as own:
            own.start_soon(time_out)
            assert "timed out" in failure_of(await at_level(client, "debug", name="work"))
            assert heard(client) == ["begin"]
            go_on.set()
            await trio.to_thread.run_sync(logged.wait)
            await client.call("echo", text="x")
            assert heard(client) == []
    finally:
        begun.set()
        go_on.set()


def test_a_thread_that_outlives_the_server_does_no_harm(source, capsys):
    go_on, logged = threading.Event(), threading.Event()

    def work() -> str:
        go_on.wait()
        source.warning("too late")
        logged.set()
        return "done"

    registry = Registry("test")
    registry.add_tool(work, timeout=0.01)
    source.addHandler(registry.log_handler())

    async def main() -> None:
        async with connect(registry) as client:
            assert not (await client.call_tool("work")).success

    trio.run(main)
    go_on.set()
    assert logged.wait(10)
    assert "Traceback" not in capsys.readouterr().err


@each_revision
async def test_requests_at_the_same_time_are_kept_apart(revision, source):
    """Also on connections and in registries that share the logger and all its handlers."""

    def registry_named(name: str) -> Registry:
        registry = Registry(name)

        @registry.tool
        async def work(mark: str) -> str:
            for _ in range(3):
                source.warning("%s %s", name, mark)
                await trio.lowlevel.checkpoint()
            await trio.to_thread.run_sync(source.warning, f"{name} {mark}")
            return mark

        source.addHandler(registry.log_handler())
        return registry

    one, two = registry_named("one"), registry_named("two")

    async def converse(registry: Registry, marks: list[str]) -> None:
        async with serving(registry, revision=revision) as (client, _):
            meta = {"_meta": {LOG_LEVEL: "info"}} if revision in MODERN else {}
            requests = [
                client.request_of(
                    "tools/call", {"name": "work", "arguments": {"mark": mark}, **meta}
                )
                for mark in marks
            ]
            await client.send(*requests)
            said: dict[str, int] = {}
            for _ in range(5 * len(marks)):
                message = await client.receive()
                if "id" not in message:
                    data = message["params"]["data"]
                    said[data] = said.get(data, 0) + 1
            assert said == {f"{registry.name} {mark}": 4 for mark in marks}

    async with trio.open_nursery() as nursery:
        nursery.start_soon(converse, one, ["a", "b"])
        nursery.start_soon(converse, one, ["c"])
        nursery.start_soon(converse, two, ["d", "e", "f"])


@pytest.mark.parametrize("inner_is_bridged", [True, False])
async def test_a_request_within_a_request_is_the_inner_one_s(source, inner_is_bridged):
    outer, inner = Registry("outer"), Registry("inner")
    inner_heard: list[Any] = []

    @inner.tool
    async def inside() -> str:
        source.warning("inside")
        return "done"

    @outer.tool
    async def outside() -> str:
        source.warning("before")
        async with connect(
            inner, on_log=lambda *each: inner_heard.append(each), log_level="info"
        ) as client:
            await client.call_tool("inside")
        source.warning("after")
        return "done"

    source.addHandler(outer.log_handler())
    if inner_is_bridged:
        source.addHandler(inner.log_handler())
    async with serving(outer) as (client, _):
        await at_level(client, "info", name="outside")
        if inner_is_bridged:
            assert heard(client) == ["before", "after"]
            assert inner_heard == [("warning", "inside", "program.part")]
        else:
            assert heard(client) == ["before", "inside", "after"]
            assert inner_heard == []


async def test_a_caller_in_the_same_process_may_log_what_it_hears(source):
    """Otherwise each message would be the reason for the next one."""
    kept: list[Any] = []

    def on_log(level: str, data: Any, logger: str | None) -> None:
        kept.append(data)
        source.warning("I heard: %s", data)

    async def work() -> str:
        source.warning("once")
        await trio.to_thread.run_sync(source.warning, "twice")
        return "done"

    registry = registry_of(work)
    source.addHandler(registry.log_handler())
    async with connect(registry, on_log=on_log, log_level="debug") as client:
        await client.call_tool("work")
    assert kept == ["once", "twice"]


@each_revision
async def test_the_library_s_own_log_is_not_forwarded(revision, caplog):
    caplog.set_level(logging.DEBUG)

    async def work() -> str:
        for name in ("trio_mcp", "trio_mcp.calls", "trio_mcp.client", "trio_mcp_friends"):
            logging.getLogger(name).error("from %s", name)
        raise RuntimeError

    registry = registry_of(work)
    root = logging.getLogger()
    handler = registry.log_handler(1)
    root.addHandler(handler)
    try:
        async with serving(registry, revision=revision) as (client, _):
            failure_of(await at_level(client, "debug", name="work"))
            assert [each["logger"] for each in told(client)] == ["trio_mcp_friends"]
    finally:
        root.removeHandler(handler)


async def test_of_a_flood_only_some_is_sent_and_the_rest_is_counted(source, autojump_clock):
    async def work() -> str:
        for number in range(5_000):
            source.info("%d", number)
            source.debug("not wanted")
        return "done"

    registry = registry_of(work)
    source.propagate = False  # to pytest, which would keep it all
    source.addHandler(registry.log_handler(logging.DEBUG))
    try:
        async with serving(registry, revision=MODERN[0]) as (client, _):
            await at_level(client, "info", name="work")
            messages = told(client)
    finally:
        source.propagate = True
    *said, last = messages
    assert 100 <= len(said) <= 2_500
    assert [each["data"] for each in said[:3]] == ["0", "1", "2"]
    assert last["level"] == "warning"
    assert last["data"] == f"{5_000 - len(said)} log messages were left out"


async def test_a_handler_that_keeps_nothing_after_its_removal(source):
    async def work() -> str:
        source.warning("x")
        return "done"

    registry = registry_of(work)
    handler = registry.log_handler()
    source.addHandler(handler)
    async with serving(registry) as (client, _):
        await at_level(client, "info", name="work")
        source.removeHandler(handler)
        handler.close()
        await at_level(client, "info", name="work")
        assert heard(client) == ["x"]


@each_revision
async def test_questions_and_bridges_go_together(revision, source):
    """A handler that asks logs in each of its runs, to the caller of that run."""

    async def work(context: Context) -> str:
        source.warning("asking")
        roots = await context.roots()
        source.warning("asked")
        return roots[0].uri

    registry = registry_of(work)
    source.addHandler(registry.log_handler())
    async with serving(registry, revision=revision, capabilities={"roots": {}}) as (client, _):
        client.answers = workroom_client.answers()
        meta = {"_meta": {LOG_LEVEL: "info"}} if revision in MODERN else {}
        answer = await workroom_client.settle(client, "tools/call", {"name": "work", **meta})
        assert text_of(answer) == "file:///home"
        again = ["asking"] if revision in MODERN else []
        assert heard(client) == [*again, "asking", "asked"]


async def test_what_a_client_in_the_process_logs_while_it_answers_is_its_own(source):
    async def elicit(params: Any) -> Any:
        source.warning("the client's own")
        return {"action": "decline"}

    async def work(context: Context) -> str:
        source.warning("asking")
        return (await context.elicit("Sure?", bool)).action

    kept: list[Any] = []
    registry = registry_of(work)
    source.addHandler(registry.log_handler())
    for era in ("legacy", "modern"):
        async with connect(
            registry,
            era=era,  # type: ignore[arg-type]
            handlers=Handlers(elicitation=elicit),
            on_log=lambda level, data, name: kept.append(data),
            log_level="info",
        ) as client:
            assert (await client.call_tool("work")).text == "decline"
    assert kept == ["asking", "asking", "asking"]


async def test_nothing_is_paid_where_there_is_no_bridge():
    """The module is not even imported."""
    code = (
        "import sys, trio, trio_mcp\n"
        "registry = trio_mcp.Registry('x')\n"
        "@registry.tool\n"
        "async def work() -> str: return 'done'\n"
        'message = b\'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"work"}}\'\n'
        "assert b'done' in trio.run(trio_mcp.handle_message, registry, message)\n"
        "assert 'trio_mcp.layers.log_bridge' not in sys.modules\n"
    )
    await trio.run_process([sys.executable, "-c", code])


# -- every way ------------------------------------------------------------------------------------


@each_way
async def test_logging_is_the_same_on_every_way(way, revision):
    async with workroom_client.reaching(way, revision) as client:
        await at_level(client, "critical", name="speak")
        assert told(client) == [
            {"level": level, "data": {"said": level}, "logger": "speaker"}
            for level in ("critical", "alert", "emergency")
        ]
        await at_level(client, "info", name="mutter", arguments={"text": "something"})
        assert told(client) == [
            {"level": "warning", "data": "muttered something", "logger": "workroom.bridged"}
        ]


@each_quick_client
async def test_the_client_hears_what_it_wants_to(way, era):
    kept: list[Any] = []

    async def speak(context: Context) -> str:
        await context.info({"a": 1})
        await context.error("bad", logger="db")
        return "done"

    async with client_of(
        registry_of(speak), way, era, on_log=lambda *each: kept.append(each), log_level="info"
    ) as client:
        await client.call_tool("speak")
        assert kept == [("info", {"a": 1}, None), ("error", "bad", "db")]
        await client.set_log_level("error")
        kept.clear()
        await client.call_tool("speak")
        assert kept == [("error", "bad", "db")]


async def test_one_meta_asks_for_levels_and_progress_at_once():
    async def work(context: Context) -> str:
        await context.progress(1)
        await context.info("x")
        await context.progress(2)
        return "done"

    registry = registry_of(work)
    ours, theirs = memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_stream, registry, theirs)
        client = RawClient(ours, MODERN[0])
        meta = modern_meta(**{LOG_LEVEL: "info", "progressToken": 7})
        await client.request("tools/call", {"name": "work", "_meta": meta})
        assert [each["method"].split("/")[1] for each in client.told] == [
            "progress",
            "message",
            "progress",
        ]
        await ours.aclose()
