"""A tool that raises never stops the server, and tells its caller no more than it means to."""

import traceback

import pytest
import trio

from tests.support.client import serving
from tests.support.tools import (
    INTERNAL,
    each_revision,
    echo,
    error_of,
    failure_of,
    registry_of,
    returning,
    some_revisions,
    text_of,
)
from trio_mcp import McpError, Registry, ToolError
from trio_mcp.middleware import McpRequest

SECRET = "s3cret /etc/passwd"


class MuteError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class MuteToolError(ToolError):
    def __str__(self) -> str:
        raise RuntimeError("no words")


async def through(request: McpRequest, call_next):
    return await call_next(request)


async def answer_to(error: BaseException, revision: str = "2025-11-25"):
    """What the caller of a tool that raises gets; the connection must live on."""
    async with serving(returning(error), revision=revision) as (client, _):
        answer = await client.call("give")
        assert "result" in await client.request("tools/list")
        return answer


@pytest.mark.requirement("B6")
@some_revisions
@pytest.mark.parametrize("text", ["Error: Division by zero", "é\n\U0001f600", "x" * 100_000])
async def test_a_tool_error_is_told_as_it_is(revision, text):
    assert failure_of(await answer_to(ToolError(text), revision)) == text


@pytest.mark.parametrize("error", [ToolError("no"), McpError(-32050, "no")])
async def test_an_instance_that_each_call_raises_keeps_no_call(error):
    """Python adds to its traceback each time, and so to the frames that it refers to."""
    async with serving(returning(error)) as (client, _):
        for _ in range(3):
            await client.call("give")
    assert error.__traceback__ is None


@pytest.mark.requirement("B6")
@pytest.mark.parametrize("error", [ToolError(), ToolError(""), MuteToolError("x")])
async def test_a_tool_error_without_words(error):
    assert failure_of(await answer_to(error)).startswith("Tool give failed")


@pytest.mark.requirement("B6")
async def test_a_tool_error_that_is_not_unicode():
    assert failure_of(await answer_to(ToolError("a\ud800b"))) == "a?b"


@pytest.mark.requirement("B6")
@some_revisions
@pytest.mark.parametrize(
    "error",
    [
        ValueError(SECRET),
        KeyError(SECRET),
        OSError(2, "No such file", "/etc/passwd"),
        RecursionError(SECRET),
        MemoryError(SECRET),
        AssertionError(SECRET),
        StopIteration(SECRET),
        StopAsyncIteration(SECRET),
        SystemExit(SECRET),
        GeneratorExit(SECRET),
        trio.TooSlowError(SECRET),
        trio.ClosedResourceError(SECRET),
        trio.BrokenResourceError(SECRET),
        BaseException(SECRET),
        MuteError(SECRET),
        ExceptionGroup(SECRET, [ValueError(SECRET), KeyError(SECRET)]),
        BaseExceptionGroup(SECRET, [SystemExit(SECRET)]),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_any_other_exception_is_not_told(revision, error, caplog):
    answer = await answer_to(error, revision)
    assert failure_of(answer) == f"Tool give failed: {INTERNAL}"
    for leak in ("s3cret", "passwd", "Traceback", ".py", type(error).__name__):
        assert leak not in str(answer)
    [record] = [each for each in caplog.records if each.levelname == "ERROR"]
    logged = record.exc_info[1]  # all of it is in the log
    assert (
        logged is error or logged in getattr(error, "exceptions", ()) or logged.__cause__ is error
    )


@pytest.mark.requirement("B6")
@each_revision
async def test_an_mcp_error_becomes_that_error(revision):
    answer = await answer_to(McpError(-32042, "Pay first", {"price": [1, None]}), revision)
    assert answer["error"] == {"code": -32042, "message": "Pay first", "data": {"price": [1, None]}}


@pytest.mark.requirement("B6")
@pytest.mark.parametrize("data", [object(), {"a": {1, 2}}, float("nan"), "\ud800", {1: 2}])
async def test_data_that_is_not_json_is_left_out(data):
    assert (await answer_to(McpError(-1, "m", data)))["error"] == {"code": -1, "message": "m"}


@pytest.mark.requirement("B6")
@pytest.mark.parametrize(
    "error",
    [McpError(-1, "\ud800"), McpError(-1, 5), McpError("x", "m"), McpError(None, None)],
    ids=["surrogate", "message", "code", "both"],
)
async def test_an_mcp_error_that_cannot_be_sent(error):
    """Whatever is made of it, it is an error, it fits the schema, and the server lives on."""
    assert "error" in await answer_to(error)


def nested(*errors: Exception) -> ExceptionGroup:
    return ExceptionGroup("a", [ExceptionGroup("b", [ExceptionGroup("c", errors)])])


@pytest.mark.requirement("B6")
@pytest.mark.parametrize(
    "error",
    [
        nested(ToolError("told")),
        nested(ValueError(SECRET), ToolError("told")),
        ExceptionGroup("a", [nested(KeyError(SECRET)), nested(ToolError("told"))]),
        BaseExceptionGroup("a", [SystemExit(1), nested(ToolError("told"))]),
    ],
)
async def test_what_is_meant_for_the_caller_is_found_in_groups(error):
    assert failure_of(await answer_to(error)) == "told"


@pytest.mark.requirement("B6")
async def test_an_mcp_error_is_found_in_groups():
    assert error_of(await answer_to(nested(McpError(-5, "told")))) == (-5, "told")


@pytest.mark.requirement("B6")
async def test_a_tool_with_a_nursery_of_its_own(autojump_clock):
    async def team() -> str:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep, 100)
            raise ToolError("told")

    async with serving(registry_of(team)) as (client, _):
        assert failure_of(await client.call("team")) == "told"
        assert trio.current_time() == 0


@pytest.mark.requirement("B6")
@pytest.mark.parametrize("error", [ValueError(SECRET), SystemExit(SECRET), ToolError("told")])
async def test_plain_functions_fail_in_the_same_way(error):
    def give() -> None:
        raise error

    async with serving(registry_of(give)) as (client, _):
        said = failure_of(await client.call("give"))
        assert said == ("told" if isinstance(error, ToolError) else f"Tool give failed: {INTERNAL}")


@pytest.mark.requirement("B6")
async def test_a_failing_tool_disturbs_nobody(autojump_clock):
    registry = returning(ValueError(SECRET))
    registry.add_tool(echo)

    @registry.tool
    async def slow() -> str:
        await trio.sleep(5)
        return "slow"

    async with serving(registry) as (client, _):
        waiting = await client.start("slow")
        for _ in range(3):
            failure_of(await client.call("give"))
        assert text_of(await client.call("echo", text="x")) == "x"
        answer = await client.receive()
        assert answer["id"] == waiting
        assert text_of(answer) == "slow"


@pytest.mark.requirement("B6")
@pytest.mark.parametrize(
    "wrap", [lambda error: error, lambda error: BaseExceptionGroup("", [error])]
)
async def test_an_interrupt_is_nobodys_to_swallow(wrap):
    """It ends the server, as it would end any program."""
    registry = returning(wrap(KeyboardInterrupt()))
    with pytest.raises(BaseExceptionGroup) as caught:
        async with serving(registry) as (client, handle):
            await client.start("give")
            await trio.sleep_forever()
    assert "KeyboardInterrupt" in "".join(traceback.format_exception(caught.value))
    assert caught.group_contains(KeyboardInterrupt)
    assert handle.state.value == "stopped"


@pytest.mark.requirement("B6", "B7")
@pytest.mark.parametrize("is_in_group", [False, True])
@pytest.mark.parametrize("around", [(), (through,)])
async def test_a_cancellation_that_was_kept_and_is_raised_again(is_in_group, around, caplog):
    """Nothing is cancelled any more, so it is an exception as any other."""
    registry = Registry("test", middleware=around)

    @registry.tool
    async def give() -> None:
        with trio.move_on_after(0):
            try:
                await trio.sleep_forever()
            except trio.Cancelled as error:
                kept = error
                raise
        raise BaseExceptionGroup("", [kept]) if is_in_group else kept

    async with serving(registry) as (client, _):
        assert failure_of(await client.call("give")) == f"Tool give failed: {INTERNAL}"
        assert "result" in await client.request("ping")
    assert "Tool give failed" in caplog.text


@pytest.mark.requirement("B6", "B7")
@pytest.mark.parametrize("error", [ValueError(SECRET), ToolError("told"), McpError(-5, "told")])
async def test_a_tool_that_raises_after_its_cancellation(error, autojump_clock, caplog):
    registry = Registry("test")

    @registry.tool(timeout=5)
    async def give() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise error

    async with serving(registry) as (client, _):
        id = await client.start("give")
        await trio.testing.wait_all_tasks_blocked()
        await client.cancel(id)
        assert "result" in await client.request("ping")  # and no answer before it
        answer = await client.call("give")
        assert failure_of(answer) == "Tool give timed out after 5 s"
    assert ("while it was cancelled" in caplog.text) is isinstance(error, ValueError)
