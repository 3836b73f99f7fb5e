"""Pictures, sounds and files that tools return by path or as bytes."""

import base64
import os
from pathlib import Path
from typing import Any

import pytest

from trio_mcp import Audio, File, Image, Registry, connect

pytestmark = pytest.mark.requirement("B5")

PNG = b"\x89PNG\r\n\x1a\n"


async def returned(value: Any, annotation: Any = Any) -> list[dict[str, Any]]:
    """The content of the result of a tool that returns a value."""

    async def show() -> Any:
        return value

    show.__annotations__["return"] = annotation
    registry = Registry("test")
    registry.add_tool(show)
    async with connect(registry) as client:
        result = await client.request("tools/call", {"name": "show"})
    content: list[dict[str, Any]] = result["content"]
    return content


@pytest.mark.parametrize("annotation", [Any, Image, list[Image | str]])
async def test_a_picture(tmp_path: Path, annotation: Any) -> None:
    path = tmp_path / "dot.png"
    path.write_bytes(PNG)
    block = {"type": "image", "data": base64.b64encode(PNG).decode(), "mimeType": "image/png"}
    for image in (Image(path), Image.from_path(str(path)), Image(data=PNG, format="png")):
        assert await returned(image, annotation) == [block]
    text = {"type": "text", "text": "A dot:"}
    assert await returned(["A dot:", Image(data=PNG, mime_type="image/png")], list) == [text, block]


def test_a_picture_in_a_uri() -> None:
    assert Image(data=PNG, format="png").to_data_uri() == "data:image/png;base64,iVBORw0KGgo="


async def test_sounds_and_files(tmp_path: Path) -> None:
    table = tmp_path / "a table.csv"
    table.write_text("a,b")
    [sound] = await returned(Audio(data=b"x", format="mp3"))
    assert (sound["type"], sound["mimeType"]) == ("audio", "audio/mpeg")
    [file] = await returned(File(table), File)
    resource = {"uri": "file:///a%20table.csv", "mimeType": "text/csv", "text": "a,b"}
    assert file == {"type": "resource", "resource": resource}
    [file] = await returned(File(data=b"\xff", uri="data://x"))
    blob = {"uri": "data://x", "mimeType": "application/octet-stream", "blob": "/w=="}
    assert file["resource"] == blob


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Image(), r"Image\(…\) takes either a path or data=…"),
        (lambda: Image("a.png", data=PNG), "takes either a path or data"),
        (
            lambda: Image(data=PNG),
            "nothing says that the data is of type image/…; give Image a form",
        ),
        (lambda: Image("plot.dat"), "nothing says that 'plot.dat' is of type image/"),
        (lambda: Audio("bell.png"), "nothing says that 'bell.png' is of type audio/"),
    ],
)
def test_what_nobody_could_send(make: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make()


async def test_files_that_cannot_be_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    os.mkfifo(tmp_path / "pipe.png")
    (tmp_path / "large.png").write_bytes(PNG * 10)
    for image, why in (
        (Image(tmp_path / "missing.png"), "FileNotFoundError"),
        (Image(tmp_path / "pipe.png"), "is not a file"),
        (Image(tmp_path / "large.png", max_bytes=10), "is larger than 10 bytes"),
    ):
        [told] = await returned(image)
        assert told["text"] == "Tool show failed: internal error (see the server's log)"
        assert why in caplog.text
