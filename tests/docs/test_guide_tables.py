"""The tables of the guides on tools and results: each row is held against the code.

Code in the cells is evaluated, with the names that `NAMES` has. `…` at an end of a text stands for
what is left out there.
"""

import ast
import enum
import inspect
import ipaddress
import json
import logging
import re
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, Optional
from uuid import UUID

import annotated_types
import attrs
import pytest
import trio
from pydantic import Field

import trio_mcp
import trio_mcp.auth
from tests.support.client import REVISIONS, RawClient, serving
from tests.support.processes import EXAMPLES, ROOT
from tests.support.tools import error_of, text_of
from trio_mcp import Context, McpError, Registry, ToolOptions, connect
from trio_mcp.cli.target import load_registry
from trio_mcp.client.result import CallResult
from trio_mcp.errors import ClientError, InvalidArguments
from trio_mcp.schema import SchemaError, schema_of
from trio_mcp.schema.parameters import Parameter, String

GUIDES = ROOT / "docs" / "guides"
TOOLS, RESULTS = GUIDES / "tools.md", GUIDES / "results.md"
PARAMETERS, CONTEXT = GUIDES / "parameters.md", GUIDES / "context.md"
MISTAKES, FAILURES_PAGE = GUIDES / "tool-errors.md", GUIDES / "failures.md"
READING = GUIDES / "reading-results.md"
STRINGS = load_registry(str(EXAMPLES / "strings.py"))


@attrs.frozen
class Trip:
    to: str
    day: date
    seats: int = 1


class Shop:
    def sell(self, book: str) -> None: ...


NAMES: dict[str, Any] = {
    **{name: getattr(trio_mcp, name) for name in trio_mcp.MODULES},
    **{name: getattr(trio_mcp.auth, name) for name in trio_mcp.auth.MODULES},
    **{name: getattr(annotated_types, name) for name in annotated_types.__all__},
    **{
        each.__name__: each
        for each in (date, datetime, time, timedelta, Decimal, Path, UUID, enum.Enum)
    },
    **{each.__name__: each for each in (Mapping, Sequence, Parameter, String, Trip, Shop)},
    "Field": Field,
    "Annotated": Annotated,
    "Any": Any,
    "Literal": Literal,
    "Optional": Optional,
    **vars(ipaddress),
    **{name: getattr(urllib.parse, name) for name in ("ParseResult", "SplitResult", "urlparse")},
    **{
        name: inspect.getmodule(STRINGS.tools["find"].function).__dict__[name]
        for name in ("Counts", "Place")
    },
    "timezone": timezone,
    "trio": trio,
}


def evaluate(code: str) -> Any:
    """The value of an expression of a guide."""
    return eval(compile(code, "guide", "eval", dont_inherit=True), dict(NAMES))


def rows(page: Path, heading: str) -> list[Any]:
    """The rows of the table that begins with a heading, as parameters of a test."""
    _, found, rest = page.read_text().partition(f"\n| {heading} |")
    assert found, f"{page.name} has no table {heading!r}"
    lines = rest.split("\n\n")[0].splitlines()[2:]
    cells = [re.split(r"(?<!\\)\|", line)[1:-1] for line in lines]
    plain = [[re.sub(r"\\([|*])", r"\1", cell.strip()) for cell in row] for row in cells]
    return [pytest.param(*row, id=row[0]) for row in plain]


def in_code(cell: str) -> list[str]:
    """What stands in a cell as code."""
    return re.findall(r"`([^`]*)`", cell)


def assert_said(text: str, cell: str) -> None:
    """Hold a text against a cell, which may leave out its beginning and its end."""
    pattern = ".*".join(map(re.escape, cell.split("…")))
    assert re.fullmatch(pattern.replace(r"\ .*", ".*").replace(r".*\ ", ".*"), text), text


def taking(annotation: Any) -> Registry:
    """A registry whose tool `use` takes an `x`, and returns it in Python's words."""
    registry = Registry("test")

    async def use(x: Any) -> str:
        return repr(x)

    use.__annotations__["x"] = annotation
    registry.add_tool(use)
    return registry


# -- tools: types ----------------------------------------------------------------------------


@pytest.mark.parametrize(("annotations", "schema"), rows(PARAMETERS, "Annotation | Schema"))
def test_types_that_json_has(annotations: str, schema: str) -> None:
    for annotation in in_code(annotations):
        assert schema_of(evaluate(annotation)) == json.loads(schema.strip("`")), annotation


@pytest.mark.parametrize(
    ("annotations", "name", "sent", "got"), rows(PARAMETERS, "Annotation | `format`")
)
async def test_types_that_travel_as_text(annotations: str, name: str, sent: str, got: str) -> None:
    wanted = {"type": "string", "format": name.strip("`")}
    if name.startswith("none"):
        keyword, _, value = in_code(name)[0].partition(": ")
        wanted = {"type": "string", keyword: value}
    annotation, *others = [each for each in in_code(annotations) if each != "urllib.parse"]
    for each in (annotation, *others):
        assert schema_of(evaluate(each)) == wanted
    arguments = {"x": json.loads(sent.strip("`"))}
    value = evaluate(got.strip("`"))
    assert await taking(evaluate(annotation)).call("use", arguments) == repr(value)


@pytest.mark.parametrize(
    ("annotation", "sent", "got"),
    [
        (int, 3.0, "3"),
        (float, 3, "3.0"),
        (set[int], [1], "{1}"),
        (enum.Enum("Fare", {"SAVER": "saver"}), "saver", "<Fare.SAVER: 'saver'>"),
        (int, "3", "3"),
        (int, "three", None),
        (int, True, None),
        (
            Trip,
            {"to": "Graz", "day": "2030-01-31", "more": 1},
            repr(Trip("Graz", date(2030, 1, 31))),
        ),
    ],
)
async def test_values_are_taken_for_what_they_are(annotation: Any, sent: Any, got: Any) -> None:
    registry = taking(annotation)
    if got is not None:
        assert await registry.call("use", {"x": sent}) == got
        return
    with pytest.raises(McpError, match="'x' must be"):
        await registry.call("use", {"x": sent})


@pytest.mark.parametrize(("metadata", "schema"), rows(PARAMETERS, "`Annotated[…]`"))
def test_what_stands_beside_a_type(metadata: str, schema: str) -> None:
    annotation = evaluate(f"Annotated[{metadata.strip('`')}]")
    assert schema_of(annotation) == json.loads(schema.strip("`"))


# -- tools: options --------------------------------------------------------------------------

OPTIONS: dict[str, Any] = {
    "title": "Use it",
    "description": "Uses it.",
    "output_schema": {"type": "object"},
    "annotations": trio_mcp.ToolAnnotations(read_only_hint=True),
    "icons": [trio_mcp.Icon("https://example.com/icon.png")],
    "meta": {"example.com/team": "tools"},
    "timeout": 3.0,
    "max_concurrent": 2,
    "scopes": ["files"],
    "tags": {"files"},
    "state": "caller",
    "task": False,
    "extensions": {},
}
WIRE = {"output_schema": "outputSchema", "meta": "_meta", "tags": "_meta"}


@pytest.mark.parametrize(("option", "since", "_"), rows(TOOLS, "Option of `@registry.tool`"))
async def test_options_are_shown_since(option: str, since: str, _: str) -> None:
    name = option.strip("`")
    registry = Registry("test")

    async def use(context: Context) -> str:
        return "x"

    registry.add_tool(use, **{name: OPTIONS[name]})
    for revision in REVISIONS:
        async with serving(registry, revision=revision) as (client, _handle):
            [tool] = (await client.request("tools/list"))["result"]["tools"]
        assert (WIRE.get(name, name) in tool) is (since != "" and revision >= since)


def test_all_options_are_told() -> None:
    told = {row.id.strip("`") for row in rows(TOOLS, "Option of `@registry.tool`")}
    known = set(ToolOptions.__annotations__)
    assert known - told == {"name", "input_schema", "parameters"}


def test_all_of_the_context_is_told() -> None:
    told = [name for row in rows(CONTEXT, "Of a `Context`") for name in in_code(row.id)]
    public = {name for name in dir(Context) if not name.startswith("_")}
    assert {name.removesuffix("()") for name in told} == public
    for name in told:
        assert name.endswith("()") == callable(getattr(Context, name.strip("()"), None))


# -- tools: mistakes and bad arguments -------------------------------------------------------


@pytest.mark.parametrize(("written", "said"), rows(MISTAKES, "Written"))
def test_mistakes_at_registration(written: str, said: str) -> None:
    registry = Registry("test")
    registry.add_tool(lambda: "x", name="taken")
    code = written.strip("`")
    names: dict[str, Any] = {**NAMES, "registry": registry}
    with pytest.raises(SchemaError) as refused:
        if code.startswith("@"):
            code += "\ndef use(x: int): ..."
        elif code.startswith("def"):
            code = f"@registry.tool\n{code}"
        exec(compile(code, "guide", "exec", dont_inherit=True), names)
    assert list(registry.tools) == ["taken"]
    assert_said(str(refused.value), said)


@pytest.mark.parametrize(("parameter", "sent", "said"), rows(MISTAKES, "Parameter"))
async def test_bad_arguments(parameter: str, sent: str, said: str) -> None:
    registry = taking(evaluate(parameter.strip("`").removeprefix("x: ")))
    arguments = json.loads(sent.strip("`"))
    told = f"Invalid arguments for tool use: {said}"
    for revision in REVISIONS:
        async with serving(registry, revision=revision) as (client, _):
            answer = await client.call("use", **arguments)
        if revision >= "2025-11-25":
            assert answer["result"]["isError"] is True
            assert text_of(answer) == told
        else:
            assert error_of(answer) == (-32602, told)
            assert answer["error"]["data"]["tool"] == "use"
    if "2030-02-31" not in sent:  # which fits the schema
        async with connect(registry) as client:
            with pytest.raises(InvalidArguments) as refused:
                await client.call_tool("use", arguments)
        assert str(refused.value) == f"tool 'use': {said}"


# -- results ---------------------------------------------------------------------------------


def giving(value: Any, annotation: Any = None, **options: Any) -> Registry:
    """A registry whose tool `read` returns a value."""
    registry = Registry("test")

    async def read() -> Any:
        return value

    read.__annotations__["return"] = Any if annotation is None else annotation
    registry.add_tool(read, **options)
    return registry


async def result_of(registry: Registry, revision: str = "2026-07-28") -> Any:
    """The result of its tool `read`."""
    async with serving(registry, revision=revision) as (client, _):
        return (await client.call("read"))["result"]


@pytest.mark.parametrize(("_", "example", "content", "structured"), rows(RESULTS, "Returned"))
async def test_what_is_returned(_: str, example: str, content: str, structured: str) -> None:
    result = await result_of(giving(evaluate(example.strip("`"))))
    assert {block["type"] for block in result["content"]} <= {"text"}
    texts = [block["text"] for block in result["content"]]
    if content == "that block":
        assert texts == [evaluate(example.strip("`")).text]
    else:
        assert texts == ([] if content == "no block" else in_code(content) or ["what is told"])
    assert result.get("structuredContent") == (
        json.loads(structured.strip("`")) if structured else None
    )
    assert ("structuredContent" in result) == bool(structured)


async def test_an_empty_list_is_text_unless_it_is_of_blocks() -> None:
    assert (await result_of(giving([])))["content"] == [{"type": "text", "text": "[]"}]
    assert (await result_of(giving([], list[trio_mcp.TextContent])))["content"] == []


def test_annotations_that_json_has_nothing_for() -> None:
    for annotation in (complex, list[trio.Lock]):
        with pytest.raises(SchemaError, match="has no JSON form"):
            giving(None, annotation)


@pytest.mark.parametrize(("annotations", "schema"), rows(RESULTS, "Return annotation"))
def test_output_schemas(annotations: str, schema: str) -> None:
    shown = annotations.partition(":")[0] if schema == "its schema" else annotations
    for code in in_code(shown):
        annotation = evaluate(code)
        found = giving(None, annotation).tools["read"].description.output_schema
        if schema == "its schema":
            assert found == schema_of(annotation)
        else:
            assert found == (None if schema == "none" else json.loads(schema.strip("`")))


async def test_an_output_schema_of_a_list_can_be_given() -> None:
    place = NAMES["Place"]
    schema = schema_of(list[place])
    result = await result_of(giving([place(2, 7)], output_schema=schema))
    assert result["structuredContent"] == [{"line": 2, "column": 7}]
    for value in (trio_mcp.TextContent("x"), None):
        with pytest.raises(McpError, match="must be an array"):
            await giving(value, output_schema=schema).call("read")
    failed = trio_mcp.CallToolResult([], is_error=True)
    assert (await result_of(giving(failed, output_schema=schema)))["isError"] is True


FAILURES = rows(FAILURES_PAGE, "In a tool named `read`")
DONE_IN_CODE = [row for row in FAILURES if row.id.startswith("`")]
CUT_SHORT = [row for row in FAILURES if not row.id.startswith("`")]


@pytest.mark.parametrize(("done", "kind", "text", "outcome"), DONE_IN_CODE)
async def test_failures(
    done: str,
    kind: str,
    text: str,
    outcome: str,
    autojump_clock: trio.testing.MockClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    body = ast.unparse(ast.parse(in_code(done)[0]))
    names = dict(NAMES)
    exec(compile(f"async def read() -> Any: {body}", "guide", "exec", dont_inherit=True), names)
    if "`Place` is the output schema" in done:
        names["read"].__annotations__["return"] = names["Place"]
    registry = Registry("test", tool_timeout=10)
    registry.add_tool(names["read"])
    for revision in REVISIONS:
        async with serving(registry, revision=revision) as (client, _):
            answer = await client.call("read")
        if kind == "`isError: true`":
            assert answer["result"]["isError"] is True
            assert text_of(answer) == text.strip("`")
        else:
            assert kind.startswith("error ")
            before = re.search(r"\((-\d+) before ([\d-]+)\)", kind)
            code = before[1] if before and revision < before[2] else kind.split()[1].strip(",")
            assert answer["error"]["code"] == int(code)
            assert answer["error"]["message"] == text.strip("`")
            assert "with the data" not in kind or answer["error"]["data"] == {"title": "Emma"}
    ended = {record.outcome for record in caplog.records if hasattr(record, "outcome")}
    assert ended == {outcome.strip("`")}
    errors = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert bool(errors) == (outcome == "`exception`" or "Invalid handler result" in text)
    assert not any("two" in record.getMessage() for record in errors)


def row_about(words: str) -> tuple[str, str, str]:
    """What a table says of a call that is cut short."""
    (row,) = (row.values for row in CUT_SHORT if words in row.id)
    kind, text, outcome = (str(cell).strip("`") for cell in row[1:])
    return kind, text, outcome


@asynccontextmanager
async def waiting(caplog: pytest.LogCaptureFixture) -> Any:
    """A client whose call does not end."""
    caplog.set_level(logging.INFO)
    registry = Registry("test")
    registry.add_tool(trio.sleep_forever, name="read")
    async with serving(registry) as (client, handle):
        yield client, await client.start("read"), handle


async def test_a_call_that_the_client_cancels(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    kind, text, outcome = row_about("the client cancels")
    assert (kind, text) == ("nothing", "")
    async with waiting(caplog) as (client, id, _):
        await trio.testing.wait_all_tasks_blocked()
        await client.cancel(id)
        assert (await client.request("ping"))["result"] == {}  # and no other answer before it
    assert [each.outcome for each in caplog.records if hasattr(each, "outcome")] == [outcome]


async def test_a_call_that_the_server_ends(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    kind, text, outcome = row_about("the server stops")
    async with waiting(caplog) as (client, id, handle):
        await trio.testing.wait_all_tasks_blocked()
        handle.stop()
        error = (await client.answer_to(id))["error"]
        assert (f"error {error['code']}", error["message"]) == (kind, text)
    assert [each.outcome for each in caplog.records if hasattr(each, "outcome")] == [outcome]


async def test_calls_that_are_refused_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with serving(taking(int)) as (client, _):
        await client.call("use", x="no. 4711")
        await client.call("absent", x="no. 4711")
    records = [each for each in caplog.records if each.name == "trio_mcp.calls"]
    told = [(each.tool, each.outcome) for each in records]  # type: ignore[attr-defined]
    assert told == [("use", "invalid arguments"), ("absent", "not found")]
    assert "4711" not in caplog.text


def test_an_option_that_does_not_exist() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'titel'"):
        Registry("test").add_tool(lambda: "x", titel="x")


# -- results: the client ---------------------------------------------------------------------


def test_all_of_a_result_is_told() -> None:
    told = [in_code(row.id)[0] for row in rows(READING, "Of a `CallResult`")]
    public = {name for name in dir(CallResult) if not name.startswith("_")}
    assert {name.partition("(")[0] for name in told} == public


@pytest.mark.parametrize("era", ["modern", "legacy"])
@pytest.mark.parametrize(("returned", "kind", "got"), rows(READING, "The tool returned"))
async def test_results_become_values(returned: str, kind: str, got: str, era: Any) -> None:
    value, wanted = evaluate(returned.strip("`")), evaluate(kind.strip("`"))
    async with connect(giving(value), era=era) as client:
        if "`ProtocolError`" in got:
            with pytest.raises(ClientError, match="the result is not") as refused:
                await client.call_tool("read", returns=wanted)
            assert type(refused.value).__name__ == "ProtocolError"
        else:
            found = await client.call_tool("read", returns=wanted)
            expected = evaluate(got.strip("`"))
            assert (found, type(found)) == (expected, type(expected))


# -- results: revisions ----------------------------------------------------------------------

BY_REVISION: dict[str, tuple[Registry, Callable[[Any], bool]]] = {
    "an object": (
        giving({"a": 1}, dict[str, int]),
        lambda result: result.get("structuredContent") == {"a": 1},
    ),
    "a list or a number": (
        giving([1], output_schema={"type": "array"}),
        lambda result: result.get("structuredContent") == [1],
    ),
    "`AudioContent`": (
        giving(trio_mcp.AudioContent("UklGRg==", "audio/wav")),
        lambda result: result["content"][0]["type"] == "audio",
    ),
    "`ResourceLink`": (
        giving(trio_mcp.ResourceLink("a:b", "name")),
        lambda result: result["content"][0]["type"] == "resource_link",
    ),
}
INSTEAD: dict[str, Callable[[Any], bool]] = {
    "wrapped": lambda result: result["structuredContent"] == {"result": [1]},
    "text only": lambda result: (
        "structuredContent" not in result and result["content"][0]["type"] == "text"
    ),
    "an embedded resource": lambda result: (
        result["content"][0]["resource"]["blob"] == "UklGRg=="
        and result["content"][0]["type"] == "resource"
    ),
    "its name and URI as text": lambda result: result["content"][0]["text"] == "name: a:b",
}


async def has_output_schema(client: RawClient) -> bool:
    [tool] = (await client.request("tools/list"))["result"]["tools"]
    return "outputSchema" in tool


OF_EACH_REVISION = [
    pytest.param(row.values, id=row.id) for row in rows(RESULTS, f"What | {' | '.join(REVISIONS)}")
]


@pytest.mark.parametrize("row", OF_EACH_REVISION)
async def test_what_each_revision_has(row: Sequence[str]) -> None:
    what, *cells = row
    told = dict(zip(REVISIONS, cells, strict=True))
    (name,) = (name for name in BY_REVISION if what.startswith(name))
    registry, has_it = BY_REVISION[name]
    for revision in REVISIONS:
        cell = told[revision]
        async with serving(registry, revision=revision) as (client, _):
            result = (await client.call("read"))["result"]
            if "schema" in what.lower():
                assert await has_output_schema(client) is (cell in ("yes", "wrapped"))
        assert (has_it if cell == "yes" else INSTEAD[cell])(result)
        assert has_it(result) is (cell == "yes")
