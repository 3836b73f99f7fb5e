"""The middleware that is included: limits, cache, repetition, records."""

import logging
import math
from typing import Any

import pytest
import trio
from attrs import evolve

from tests.support.client import serving
from tests.support.tools import echo, error_of, failure_of, registry_of, text_of
from tests.support.turns import turns_of_another_task
from tests.transports.http.support import LegacyClient, ModernClient, hosting
from trio_mcp import (
    CallToolResult,
    Client,
    Context,
    Handlers,
    Implementation,
    McpError,
    Registry,
    ResourceNotFound,
    TextContent,
    ToolAnnotations,
    ToolError,
    connect,
)
from trio_mcp.errors import CannotReach, ResponseTooLarge
from trio_mcp.middleware import (
    AuditLog,
    Cache,
    McpCall,
    McpRequest,
    RateLimit,
    ResultSize,
    Retry,
    ShowErrors,
    SlowCalls,
)
from trio_mcp.middleware.size import size_of
from trio_mcp.wire.kept import KeptValues

pytestmark = pytest.mark.requirement("L5")

READS = ToolAnnotations(read_only_hint=True)


def request_of(principal: str | None = None, method: str = "tools/call", **params: Any):
    """A request as a server gets it."""
    context = Context(tool="x", principal=principal, connection_id="c", revision="2026-07-28")
    return McpRequest(method=method, params=params, context=context)


async def answer(request):
    """What is innermost."""
    return {"content": []}


# -- rate -------------------------------------------------------------------------------------


async def test_what_comes_too_often_is_told_when_to_come_again(autojump_clock):
    registry = registry_of(echo, middleware=[RateLimit(0.5, burst=2)])
    async with serving(registry, shake_hands=False) as (client, _):
        assert text_of(await client.call("echo", text="a")) == "a"
        await client.request("tools/list")
        assert failure_of(await client.call("echo", text="b")).endswith("try again in 2.0 s")
        refused = await client.request("tools/list")
        assert error_of(refused) == (-32000, "Too many requests: try again in 2.0 s")
        assert refused["error"]["data"] == {"retryAfter": 2.0}
        await trio.sleep(2)
        assert text_of(await client.call("echo", text="c")) == "c"


async def test_each_caller_has_a_rate_of_its_own_and_some_calls_none(autojump_clock):
    limit = RateLimit(
        1, by=lambda given: None if given.target == "free" else given.context.principal
    )
    await limit(request_of("ada", name="x"), answer)
    await limit(request_of("bob", name="x"), answer)
    await limit(request_of("ada", name="free"), answer)
    with pytest.raises(ToolError):
        await limit(request_of("ada", name="x"), answer)


async def test_of_a_crowd_of_callers_the_last_are_remembered():
    limit = RateLimit(1, max_keys=100)
    for number in range(101):
        await limit(request_of(f"caller {number}"), answer)
    with pytest.raises(ToolError):
        await limit(request_of("caller 1"), answer)
    await limit(request_of("caller 0"), answer)


# -- size -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "size"),
    [("abc", 5), ("é", 4), ("\ud800", 5), ([1, "a"], 7), ({"key": 2**70}, 30), ([], 2)],
)
async def test_sizes_are_those_of_json(value, size):
    assert await size_of(value) == size


async def test_others_get_their_turn_while_much_is_counted():
    async with turns_of_another_task() as turns:
        assert await size_of([[0] * 100] * 10_000) > 2_000_000
        assert turns.count > 1


async def test_a_result_that_is_too_large_is_refused_in_words():
    async def listed(count: int) -> list[str]:
        return ["word"] * count

    registry = registry_of(echo, listed, middleware=[ResultSize(1000)])

    @registry.resource("big://one")
    async def one() -> str:
        return "x" * 2000

    async with serving(registry) as (client, _):
        assert text_of(await client.call("echo", text="a" * 900)) == "a" * 900
        words = "The result has more than 1,000 bytes, which is the limit. Ask for less."
        assert failure_of(await client.call("echo", text="a" * 1000)) == words
        assert error_of(await client.request("resources/read", {"uri": "big://one"}))[1] == words
    async with connect(registry_of(echo), middleware=[ResultSize(1000)]) as small:
        with pytest.raises(ResponseTooLarge, match="tools/call: the result has more than"):
            await small.call_tool("echo", {"text": "a" * 1000})


async def test_text_is_cut_with_a_note_where_that_is_wanted():
    async def many() -> CallToolResult:
        return CallToolResult([TextContent("a" * 60), TextContent("é" * 60), TextContent("lost")])

    async def typed() -> dict[str, str]:
        return {"text": "x" * 200}

    registry = registry_of(many, typed, middleware=[ResultSize(100, truncate=True)])
    async with serving(registry) as (client, _):
        [first, second] = (await client.call("many"))["result"]["content"]
        assert first["text"] == "a" * 60
        kept, _, note = second["text"].partition("\n")
        assert kept == "é" * 20  # 40 bytes are left
        assert note == "[Cut here: the result has more than 100 bytes.]"
        assert "Ask for less" in failure_of(await client.call("typed"))


# -- cache ------------------------------------------------------------------------------------


def counting(**options: Any) -> tuple[Registry, list[Any]]:
    """A registry whose tools and resources write down what they are asked."""
    asked: list[Any] = []
    registry = Registry("counting", **options)

    @registry.tool(annotations=READS)
    async def read(text: str) -> str:
        asked.append(text)
        await trio.sleep(1)
        if text == "bad":
            raise ToolError("bad")
        return f"{text} {len(asked)}"

    @registry.tool
    async def write(text: str) -> str:
        asked.append(text)
        return str(len(asked))

    @registry.resource("note://{name}")
    async def note(name: str) -> str:
        asked.append(name)
        return f"{name} {len(asked)}"

    return registry, asked


async def contents_of(client: Client, uri: str) -> str:
    """Read the text of a resource again."""
    [contents] = (await client.read_resource(uri, fresh=True)).contents
    return contents.text


async def test_what_only_reads_is_kept_for_a_while(autojump_clock):
    registry, asked = counting(middleware=[Cache(10)])
    async with connect(registry) as client:
        for _ in range(3):
            assert (await client.call_tool("read", {"text": "a"})).text == "a 1"
            assert await contents_of(client, "note://n") == "n 2"
        await client.call_tool("read", {"text": "b"})
        await trio.sleep(10)
        assert (await client.call_tool("read", {"text": "a"})).text == "a 4"
        registry.notify_resource_updated("note://other")
        assert await contents_of(client, "note://n") == "n 5"
        asked.clear()
        for _ in range(2):
            await client.call_tool("write", {"text": "w"})
            await client.call_tool("read", {"text": "bad"})
        assert asked == ["w", "bad", "w", "bad"]


async def test_many_who_ask_at_once_wait_for_one_and_its_cancellation_is_its_own(autojump_clock):
    registry, asked = counting(middleware=[Cache(10)])
    texts: list[str] = []
    async with connect(registry) as client, trio.open_nursery() as nursery:

        async def ask() -> None:
            texts.append((await client.call_tool("read", {"text": "a"})).text)

        with trio.move_on_after(0.5):
            nursery.start_soon(ask)
            nursery.start_soon(ask)
            await client.call_tool("read", {"text": "a"})
    assert len(asked) <= 2
    assert texts == [texts[0]] * 2


async def test_who_asks_after_a_change_does_not_wait_for_what_began_before_it(autojump_clock):
    text, texts = "old", {}
    registry = Registry("slow", middleware=[Cache(10)])

    @registry.resource("note://n")
    async def note() -> str:
        found = text
        await trio.sleep(2)
        return found

    async with connect(registry) as client:

        async def ask(who: str) -> None:
            texts[who] = await contents_of(client, "note://n")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, "before")
            await trio.sleep(1)
            text = "new"
            registry.notify_resource_updated("note://n")
            nursery.start_soon(ask, "after")
        await ask("later")
    assert texts == {"before": "old", "after": "new", "later": "new"}


async def test_if_the_one_fails_each_sees_for_itself(autojump_clock):
    registry, asked = counting(middleware=[Cache(10)])
    async with connect(registry) as client, trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(client.call_tool, "read", {"text": "bad"})
    assert asked == ["bad"] * 3


async def test_callers_share_nothing_unless_they_may(autojump_clock):
    for shared, expected in [(False, ["a 1", "a 2"]), (True, ["a 1", "a 1"])]:
        registry, _ = counting(middleware=[Cache(10, shared=shared)])
        texts = []
        for _ in range(2):
            async with connect(registry) as client:
                texts.append((await client.call_tool("read", {"text": "a"})).text)
        assert texts == expected


async def test_what_a_caller_does_not_see_is_not_in_the_cache_either(autojump_clock):
    def friends(shown: Any, caller: Context) -> bool:
        return caller.client is not None and caller.client.name == "friend"

    cache = Cache(10, shared=True, tools=["read"])
    registry, _ = counting(middleware=[cache], visible=friends)
    async with connect(registry, client_info=Implementation("friend", "1")) as client:
        await client.call_tool("read", {"text": "a"})
        await client.read_resource("note://n")
    async with connect(registry, list_tools=False) as client:
        with pytest.raises(McpError, match="Unknown tool"):
            await client.call_tool("read", {"text": "a"})
        with pytest.raises(ResourceNotFound):
            await client.read_resource("note://n")


def test_what_is_kept_keeps_within_its_bound():
    kept: KeptValues[int, str] = KeptValues(100)
    for number in range(1000):
        kept.put(number, "value", 30, 60.0)
    kept.put(-1, "too large", 101, 60.0)
    assert [key for key, _ in kept] == [997, 998, 999]
    assert kept.find(997, 59.0) == "value"
    kept.put(1000, "value", 30, 60.0)
    assert [key for key, _ in kept] == [999, 997, 1000]


# -- trying again -----------------------------------------------------------------------------


def call_of(annotations: ToolAnnotations | None = READS, kind: Any = "tool") -> McpCall:
    """A call of a tool."""
    registry = registry_of()
    tool = registry.add_tool(echo, annotations=annotations)
    context = Context(tool="echo")
    description = tool.description if kind == "tool" else None
    return McpCall(kind=kind, name="echo", arguments={}, context=context, description=description)


class Failing:
    """Fails so many times, then returns when that was."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.times: list[float] = []

    async def __call__(self, given: Any) -> list[float]:
        self.times.append(trio.current_time())
        if self.errors:
            raise self.errors.pop(0)
        return self.times


async def test_what_does_no_harm_is_tried_again_after_longer_and_longer(autojump_clock):
    retry = Retry(attempts=4, delay=1, max_delay=3, random=lambda: 1.0)
    fail = Failing(ConnectionResetError(), trio.TooSlowError(), CannotReach("no"))
    start = trio.current_time()
    assert [time - start for time in await retry(call_of(), fail)] == [0, 1, 3, 6]
    assert len(await retry(call_of(None, "resource"), Failing(OSError()))) == 2
    assert len(await Retry(tools=["echo"], delay=0)(call_of(None), Failing(OSError()))) == 2


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (call_of(None), OSError()),
        (call_of(), ValueError()),
        (call_of(), ToolError("no")),
        (call_of(), McpError(-32000, "no")),
    ],
)
async def test_what_may_do_harm_or_will_not_pass_is_not_tried_again(call, error):
    fail = Failing(error)
    with pytest.raises(type(error)):
        await Retry()(call, fail)
    assert len(fail.times) == 1


async def test_it_waits_as_long_as_it_is_told_and_not_beyond_the_time_limit(autojump_clock):
    told = McpError(-32000, "later", {"retryAfter": 7})
    start = trio.current_time()
    times = await Retry()(call_of(), Failing(told))
    assert times[1] - start == pytest.approx(7)
    fail = Failing(*[ConnectionResetError()] * 9)
    start = trio.current_time()
    with trio.fail_after(10), pytest.raises(ConnectionResetError):
        await Retry(delay=3, attempts=9, random=lambda: 1.0)(call_of(), fail)
    assert [time - start for time in fail.times] == [0, 3, 8]  # the next one would be too late


async def test_a_cancellation_is_not_tried_again(autojump_clock):
    calls: list[int] = []

    async def hang(given: Any) -> None:
        calls.append(1)
        await trio.sleep_forever()

    with trio.move_on_after(1):
        await Retry(delay=0)(call_of(), hang)
    assert calls == [1]


async def test_a_client_comes_again_when_the_server_says(autojump_clock):
    async def as_error(request: McpRequest, call_next):
        try:
            return await call_next(request)
        except ToolError as error:
            raise McpError(-32000, str(error), {"retryAfter": 1.0}) from None

    limit = RateLimit(1, by=lambda given: given.target)
    registry = registry_of(middleware=[as_error, limit])
    registry.add_tool(echo, annotations=READS)
    async with connect(registry, middleware=[Retry()]) as client:
        for _ in range(3):
            assert (await client.call_tool("echo", {"text": "a"})).text == "a"
    assert trio.current_time() >= 2


# -- records ----------------------------------------------------------------------------------


async def test_who_did_what_is_written_down_and_no_argument(caplog, autojump_clock):
    caplog.set_level(logging.INFO, "trio_mcp.audit")
    registry, _ = counting(middleware=[AuditLog()])
    async with connect(registry, list_tools=False) as client:
        await client.call_tool("read", {"text": "s3cret"})
        await client.call_tool("read", {"text": "bad"})
        await client.read_resource("note://s3cret")
        with pytest.raises(McpError):
            await client.call_tool("s3cret", {})
        with trio.move_on_after(0.5):
            await client.call_tool("read", {"text": "s3cret"})
        await client.request("tools/list")
    records = [record for record in caplog.records if record.name == "trio_mcp.audit"]
    found = [(record.method, record.target, record.outcome) for record in records]
    assert found[1:5] == [
        ("tools/call", "read", "ok"),
        ("tools/call", "read", "error"),
        ("resources/read", "note://{name}", "ok"),
        ("tools/call", None, "error"),
    ]
    assert sorted(found[5:7]) == [("tools/call", "read", "cancelled"), ("tools/list", None, "ok")]
    assert records[1].duration == pytest.approx(1)
    assert records[1].client == "trio-mcp"
    assert "s3cret" not in caplog.text
    assert records[1].getMessage() == "(anonymous): tools/call read: ok in 1000.0 ms"


async def test_arguments_are_recorded_as_the_author_wants_them(caplog):
    caplog.set_level(logging.INFO)

    def redact(call: McpCall) -> dict[str, int]:
        return {name: len(value) for name, value in call.arguments.items()}

    registry = registry_of(
        echo, middleware=[AuditLog(logger="mine", redact=redact, around="calls")]
    )
    async with serving(registry) as (client, _):
        await client.call("echo", text="s3cret")
    [record] = [logged for logged in caplog.records if logged.name == "mine"]
    assert (record.arguments, record.target) == ({"text": 6}, "echo")


async def test_what_takes_long_is_a_warning(caplog, autojump_clock):
    registry, _ = counting(middleware=[SlowCalls(0.5)])
    async with connect(registry) as client:
        await client.call_tool("write", {"text": "a"})
        await client.call_tool("read", {"text": "a"})
    [record] = [logged for logged in caplog.records if logged.name == "trio_mcp.slow"]
    assert record.getMessage() == "tools/call read took 1.0 s"


def test_around_requests_or_around_calls_and_nothing_else():
    for made in (AuditLog, SlowCalls, Retry):
        with pytest.raises(ValueError, match="around must be 'requests' or 'calls', not 'both'"):
            made(around="both")


@pytest.mark.parametrize(
    ("made", "options"),
    [
        *((RateLimit(1), {"rate": wrong}) for wrong in (0, "5", True, math.nan)),
        *((RateLimit(1), {"burst": wrong}) for wrong in (-1, 0.5, "5", None)),
        *((RateLimit(1), {"max_keys": wrong}) for wrong in (0, 1.5)),
        *((Cache(1), {"ttl": wrong}) for wrong in (-1, "5")),
        *((Cache(1), {"max_bytes": wrong}) for wrong in (-1, 1.5)),
        *((Retry(), {"attempts": wrong}) for wrong in (0, 2.5, "3", math.inf)),
        *((Retry(), {name: math.nan}) for name in ("delay", "max_delay")),
        *((ResultSize(1), {"max_bytes": wrong}) for wrong in (0, 1.5, "9")),
        *((SlowCalls(), {"seconds": wrong}) for wrong in (-1, "1")),
    ],
)
def test_numbers_that_are_out_of_range_are_refused_by_name(made, options):
    with pytest.raises(ValueError, match=f"^{next(iter(options))} must be "):
        evolve(made, **options)


@pytest.mark.parametrize(
    ("made", "options"),
    [
        *((RateLimit(1), {name: 5}) for name in ("by", "name")),
        *((Cache(1), {name: 5}) for name in ("resources", "shared")),
        *((Cache(1), {"tools": wrong}) for wrong in ("search", b"search", [5], 5)),
        *((Retry(), {"tools": wrong}) for wrong in ("search", [5], None)),
        (ResultSize(1), {"truncate": 5}),
        *((AuditLog(), {name: 5.0}) for name in ("logger", "redact")),
        (AuditLog(), {"level": "INFO"}),
    ],
)
def test_options_of_another_type_are_refused_by_name(made, options):
    with pytest.raises(TypeError, match=f"^{next(iter(options))} must be "):
        evolve(made, **options)


# -- callers over HTTP ----------------------------------------------------------------------------


async def test_nothing_is_kept_for_callers_that_cannot_be_told_apart(autojump_clock):
    registry, asked = counting(middleware=[Cache(60)])
    async with hosting(registry) as host:
        for client in (ModernClient(host), ModernClient(host)):
            assert text_of(await client.call("read", text="a"))
        assert len(asked) == 2
        session = LegacyClient(host)
        await session.initialize()
        for _ in range(2):
            assert text_of(await session.call("read", text="a"))
        assert len(asked) == 3


async def test_callers_without_token_and_session_count_for_their_address():
    async with hosting(registry_of(echo, middleware=[RateLimit(0.001, burst=1)])) as host:
        ours, theirs, session = ModernClient(host), ModernClient(host), LegacyClient(host)
        theirs.address = ("127.0.0.2", 1)
        assert text_of(await ours.call("echo", text="a")) == "a"
        assert "Too many requests" in text_of(await ours.call("echo", text="a"))
        assert text_of(await theirs.call("echo", text="a")) == "a"
        assert (await session.post(session.initialize_request())).status == 200


# -- exceptions -------------------------------------------------------------------------------


class Sold(LookupError):
    pass


async def grouped(*errors: Exception) -> None:
    async with trio.open_nursery() as nursery:
        for error in errors:

            async def fail(error: Exception = error) -> None:
                raise error

            nursery.start_soon(fail)


async def raising(registry: Registry, function: Any) -> str:
    registry.add_tool(function, name="use")
    async with serving(registry) as (client, _):
        return failure_of(await client.call("use"))


MASKED = "Tool use failed: internal error (see the server's log)"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ValueError("too small"), "too small"),
        (Sold("the last one"), "the last one"),
        (ValueError(), "ValueError"),
        (KeyError("secret"), "'secret'"),
        (TypeError("secret"), MASKED),
        (ToolError("as ever"), "as ever"),
    ],
)
@pytest.mark.parametrize("is_plain", [False, True])
async def test_exceptions_that_were_named_are_shown(
    error: Exception, said: str, is_plain: bool
) -> None:
    def fail() -> None:
        raise error

    async def fail_later() -> None:
        raise error

    registry = Registry("test", middleware=[ShowErrors(ValueError, LookupError)])
    assert await raising(registry, fail if is_plain else fail_later) == said


@pytest.mark.parametrize(
    ("errors", "said"),
    [
        ([ValueError("one")], "one"),
        ([ValueError("one"), TypeError("secret")], MASKED),
        ([ValueError("one"), ToolError("two")], "two"),
    ],
)
async def test_of_a_group_nothing_is_shown_that_was_not_named(
    errors: list[Exception], said: str
) -> None:
    async def fail() -> None:
        await grouped(*errors)

    assert await raising(Registry("test", middleware=[ShowErrors(ValueError)]), fail) == said


async def test_all_that_a_group_has_is_shown_if_all_was_named() -> None:
    async def fail() -> None:
        raise ExceptionGroup("", [ValueError("one"), ExceptionGroup("", [ValueError("two")])])

    assert await raising(Registry("test", middleware=[ShowErrors(ValueError)]), fail) == "one\ntwo"


@pytest.mark.parametrize("error", [McpError(-32000, "no"), ResourceNotFound("x://y")])
async def test_what_is_an_answer_already_stays_one(error: Exception) -> None:
    registry = Registry("test", middleware=[ShowErrors(Exception)])

    @registry.tool
    async def fail() -> None:
        raise error

    async with serving(registry) as (client, _):
        assert error_of(await client.call("fail"))[0] in (-32000, -32002)


async def test_an_error_of_the_protocol_is_read_by_a_model_if_that_is_named() -> None:
    async def fail() -> str:
        raise McpError(-32000, "no such page")

    registry = Registry("test", middleware=[ShowErrors(McpError)])
    registry.add_prompt(fail)
    assert await raising(registry, fail) == "no such page"
    async with connect(registry) as client:
        with pytest.raises(McpError) as told:
            await client.get_prompt("fail")
    assert told.value.code == -32000


@pytest.mark.parametrize("kind", [Exception, McpError])
async def test_a_question_is_asked_though_all_exceptions_are_shown(kind: type[Exception]) -> None:
    registry = Registry("test", middleware=[ShowErrors(kind)])

    @registry.tool
    async def ask(context: Context) -> str:
        return str((await context.elicit("Colour?", str)).value)

    async def answer(params: Any) -> dict[str, Any]:
        return {"action": "accept", "content": {"value": "blue"}}

    async with connect(registry, handlers=Handlers(elicitation=answer)) as client:
        assert (await client.call_tool("ask")).text == "blue"


async def test_the_log_has_what_was_shown(caplog: pytest.LogCaptureFixture) -> None:
    async def fail() -> None:
        raise ValueError("too small")

    caplog.set_level(logging.DEBUG, "trio_mcp.errors")
    await raising(Registry("test", middleware=[ShowErrors(ValueError)]), fail)
    [record] = [each for each in caplog.records if each.name == "trio_mcp.errors"]
    assert record.exc_info is not None
    assert record.exc_info[0] is ValueError


@pytest.mark.parametrize("kinds", [(), (5,), ("ValueError",), (KeyboardInterrupt,), (int,)])
def test_what_is_no_exception_is_not_shown(kinds: Any) -> None:
    with pytest.raises(TypeError, match="ShowErrors"):
        ShowErrors(*kinds)


def test_what_is_shown_is_seen() -> None:
    assert repr(ShowErrors(ValueError, Sold)) == "ShowErrors(ValueError, Sold)"
