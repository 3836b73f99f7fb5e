"""The example on text tools, met by the client: as a process and within this one."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from hashlib import sha256
from typing import Any

import pytest
import trio

from tests.support.processes import EXAMPLES, ROOT, TIME_LIMIT, python
from trio_mcp import Client, connect
from trio_mcp.cli.target import load_registry
from trio_mcp.client.connect import Target
from trio_mcp.errors import InvalidArguments, ToolFailed
from trio_mcp.transports.process import ProcessOptions

Connect = Callable[[], AbstractAsyncContextManager[Client]]
PROGRAM = EXAMPLES / "strings.py"


@pytest.fixture(params=["modern, a process", "legacy, in process"])
def connected(request: pytest.FixtureRequest) -> Connect:
    """Connects to the example."""
    era, _, where = request.param.partition(", ")

    @asynccontextmanager
    async def connect_to_it() -> AsyncIterator[Client]:
        target: Target = python(PROGRAM) if where == "a process" else load_registry(str(PROGRAM))
        process = ProcessOptions(env={"PYTHONPATH": str(ROOT)})
        with trio.fail_after(TIME_LIMIT):
            async with connect(target, era=era, process_options=process) as client:
                yield client
                assert client.stray_output == []
                assert client.stderr() == ""

    return connect_to_it


async def test_the_tools(connected: Connect) -> None:
    async with connected() as client:

        async def call(name: str, kind: type = str, /, **arguments: Any) -> Any:
            return await client.call_tool(name, arguments, returns=kind)

        # What a model is told: every argument is described, and nothing does any harm.
        for tool in client.tools.values():
            properties = tool.input_schema["properties"]
            assert tool.description
            assert all(each.get("description") for each in properties.values())
            assert tool.details["annotations"] == {"readOnlyHint": True, "openWorldHint": False}
        assert client.tools["rename"].details["title"] == "Change the style of a name"
        assert "outputSchema" in client.tools["count"].details

        assert await call("count", dict, text="Grüße\naus  Graz\n") == {
            "characters": 16,
            "words": 3,
            "lines": 2,
            "utf8_bytes": 18,
        }
        assert set((await call("count", dict, text="")).values()) == {0}

        text = "A rose is a rose\nis a. rose"
        roses = [(1, 3), (1, 13), (2, 7)]
        for limit in (1, 2, 100):
            places = await call("find", list, text=text, words="rose", limit=limit)
            assert [(each["line"], each["column"]) for each in places] == roses[:limit]
        for words, ignore_case, found in [("a", False, 2), ("a", True, 3), ("a.", True, 1)]:
            places = await call("find", list, text=text, words=words, ignore_case=ignore_case)
            assert len(places) == found
        assert await call("find", list, text=text, words="rise") == []

        swapped = {"rose": "lily", "lily": "rose", "roses": "tulips", ".": r"\1"}
        assert await call("replace", text="rose, lily, roses.", replacements=swapped) == (
            r"lily, rose, tulips\1"
        )


@pytest.mark.parametrize(
    ("name", "snake", "kebab", "constant", "camel"),
    [
        ("userName", "user_name", "user-name", "USER_NAME", "userName"),
        ("HTTPServer 2", "http_server_2", "http-server-2", "HTTP_SERVER_2", "httpServer2"),
        ("__grüne-Äpfel__", "grüne_äpfel", "grüne-äpfel", "GRÜNE_ÄPFEL", "grüneÄpfel"),
        ("x", "x", "x", "X", "x"),
    ],
)
async def test_names(name: str, snake: str, kebab: str, constant: str, camel: str) -> None:
    registry = load_registry(str(PROGRAM))
    styles = {"snake": snake, "kebab": kebab, "constant": constant, "camel": camel}
    for style, expected in styles.items():
        assert await registry.call("rename", {"name": name, "style": style}) == expected


async def test_codes_and_differences(connected: Connect) -> None:
    async with connected() as client:

        async def call(name: str, /, **arguments: Any) -> Any:
            return await client.call_tool(name, arguments, returns=str)

        text = "Grüße & 1%"
        codes = {
            "base64": "R3LDvMOfZSAmIDEl",
            "hex": "4772c3bcc39f652026203125",
            "url": "Gr%C3%BC%C3%9Fe%20%26%201%25",
        }
        for encoding, code in codes.items():
            assert await call("encode", text=text, encoding=encoding) == code
            assert await call("decode", text=code, encoding=encoding) == text
        assert await call("digest", text=text) == sha256(text.encode()).hexdigest()
        assert await call("digest", text="", algorithm="md5") == "d41d8cd98f00b204e9800998ecf8427e"

        for arguments, said in [
            ({"text": "R3L", "encoding": "base64"}, "This is not base64. Is it cut off?"),
            ({"text": "4g", "encoding": "hex"}, "This is not hex. Is it cut off?"),
            ({"text": "ff", "encoding": "hex"}, "This is hex, but what it encodes is not text."),
            ({"text": "%ff", "encoding": "url"}, "This is url, but what it encodes is not text."),
        ]:
            with pytest.raises(ToolFailed) as failed:
                await call("decode", **arguments)
            assert str(failed.value) == said
        with pytest.raises(ToolFailed, match="no letter and no digit in '--'"):
            await call("rename", name="--", style="camel")

        result = await client.call_tool("compare", {"old": "a\nb\nc", "new": "a\n++\nc\nd\n"})
        assert result.structured_content == {"added": 2, "removed": 1}
        assert result.text.splitlines()[3:] == [" a", "-b", "+++", " c", "+d"]
        result = await client.call_tool("compare", {"old": "a\r\nb", "new": "a\nb\n"})
        assert (result.text, result.structured_content) == (
            "All lines are the same.",
            {"added": 0, "removed": 0},
        )


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("find", {"text": "x", "words": ""}, "'words' must have at least 1 character"),
        ("find", {"text": "x", "words": "x", "limit": 0}, "'limit' must be at least 1"),
        ("replace", {"text": "x", "replacements": {}}, "'replacements' must have at least 1"),
        ("replace", {"text": "x", "replacements": {"": "y"}}, "'replacements' must have at least"),
        ("replace", {"text": "x", "replacements": {"x": 1}}, r"'replacements\.x' must be a string"),
        ("encode", {"text": "x", "encoding": "rot13"}, "one of 'base64', 'hex' or 'url'"),
        ("count", {"text": "x" * 200_001}, "'text' must have at most 200000 characters"),
        ("compare", {"old": "x"}, "Missing required argument 'new'"),
    ],
)
async def test_arguments_that_do_not_fit(name: str, arguments: Any, words: str) -> None:
    async with connect(load_registry(str(PROGRAM))) as client:
        with pytest.raises(InvalidArguments, match=words):
            await client.call_tool(name, arguments)
