"""The file explorer, attacked: by paths, links, races, odd files and odd names."""

import base64
import os
import runpy
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import example, given
from hypothesis import strategies as st
from trio.testing import wait_all_tasks_blocked

from docs.examples import files
from docs.examples.files import MOST_BYTES, Walk, file_server
from tests.support.processes import EXAMPLES, ROOT, TIME_LIMIT, python
from trio_mcp import Limits, McpError, Registry, ResourceNotFound, ToolError, connect
from trio_mcp.transports.process import ProcessOptions

SECRET = "what nobody may see"
ODD_NAME = "50%2e is ?#ü.txt"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A tree with all kinds of things in it, and a secret beside it."""
    above = tmp_path_factory.mktemp("above")
    (above / "secret.txt").write_text(SECRET)
    (above / "outside").mkdir()
    (above / "outside" / "secret.txt").write_text(SECRET)
    root = above / "root"
    (root / "docs" / "deep").mkdir(parents=True)
    (root / "docs" / "guide.txt").write_text("Read this.\nThen that: THIS.\n")
    (root / "docs" / "deep" / ODD_NAME).write_text("thïs too\n")
    (root / "data.bin").write_bytes(bytes(range(256)))
    (root / "empty").touch()
    (root / "out").symlink_to(above / "outside")
    (root / "up").symlink_to("..")
    (root / "docs" / "secret.txt").symlink_to(above / "secret.txt")
    os.mkfifo(root / "pipe")
    (root / "two\nlines").touch()
    (root / os.fsdecode(b"caf\xe9")).touch()
    with socket.socket(socket.AF_UNIX) as listener:
        here = Path.cwd()
        os.chdir(root)  # the path of a socket must not be long
        listener.bind("socket")
        os.chdir(here)
        yield root


@pytest.fixture
def server(root: Path) -> Registry:
    return file_server(root)


@pytest.mark.long
async def test_the_explorer_as_a_process(root: Path) -> None:
    program = python(EXAMPLES / "files.py", str(root))
    options = ProcessOptions(env={"PYTHONPATH": str(ROOT)})
    with trio.fail_after(TIME_LIMIT):
        async with connect(program, process_options=options) as client:
            listing = await client.call_tool("list_directory")
            found = {each["path"]: each["kind"] for each in listing.structured_content["entries"]}
            assert found == {
                "data.bin": "file",
                "docs": "directory",
                "empty": "file",
                "out": "link",
                "pipe": "other",
                "socket": "other",
                "up": "link",
            }
            assert listing.structured_content["notes"] == [files.UNTOLD]
            part = await client.call_tool("read_file", {"path": "docs/guide.txt"})
            assert part.structured_content["text"].startswith("Read this.")
            for path in ("../secret.txt", "out/secret.txt", "/etc/passwd", "pipe", "x\0y"):
                refused = await client.call_tool("read_file", {"path": path})
                assert not refused.success
                assert "internal error" not in refused.error
            for uri in ("tree:///../secret.txt", "tree:///%2e%2e%2fsecret.txt", "tree:///out/x"):
                with pytest.raises(ResourceNotFound):
                    await client.read_resource(uri)
            assert client.stray_output == []
            assert client.stderr() == ""


@pytest.mark.parametrize("arguments", [[], ["no-such-directory"], ["a", "b"]])
def test_a_wrong_command_line_is_told(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["files.py", *arguments])
    with pytest.raises(SystemExit) as told:
        runpy.run_path(str(EXAMPLES / "files.py"), run_name="__main__")
    assert str(told.value.code).startswith("usage: ")
    assert "\n" not in str(told.value.code)


async def test_tools_and_resources_show_the_same(root: Path, server: Registry) -> None:
    async with connect(server) as client:
        (template,) = await client.list_resource_templates()
        assert template.uri_template == "tree:///{+path}"
        seen = set()
        for path in ("", "docs", "docs/deep", "./docs//deep/"):
            listing = await client.call_tool("list_directory", {"path": path})
            for entry in listing.structured_content["entries"]:
                stated = await client.call_tool("stat", {"path": entry["path"]})
                assert stated.structured_content == entry
                if entry["kind"] != "file":
                    assert entry["uri"] is None
                    continue
                content = (root / entry["path"]).read_bytes()
                assert (await client.read_resource(entry["uri"])).data == content
                assert await read_all(client, entry["path"]) == content
                seen.add(entry["path"])
        assert seen == {"data.bin", "empty", "docs/guide.txt", f"docs/deep/{ODD_NAME}"}


async def read_all(client: Any, path: str, **options: int) -> bytes:
    """All parts of a file, one after the other."""
    data, start = b"", 0
    while start is not None:
        arguments = {"path": path, "start": start, **options}
        part = (await client.call_tool("read_file", arguments)).structured_content
        text, encoded = part["text"], part["base64"]
        data += base64.b64decode(encoded) if text is None else text.encode()
        assert part["next"] in (None, len(data))
        start = part["next"]
    return data


REFUSED = [
    ("../secret.txt", "'..' in it; write the path from the root"),
    ("docs/../../secret.txt", "'..' in it"),
    ("docs/..", "'..' in it"),
    ("/etc/passwd", "is absolute; write it from the root"),
    ("//etc/passwd", "is absolute"),
    ("/", "is absolute"),
    ("..%2fsecret.txt", "nothing of that name; list_directory shows what there is"),
    ("%2e%2e/secret.txt", "nothing of that name"),
    ("..\\secret.txt", "nothing of that name"),
    ("docs\0/../../secret.txt", "'..' in it"),
    ("docs/guide.txt\0.png", "characters that no path here has"),
    ("two\nlines", "characters that no path here has"),
    ("out/secret.txt", "links are not followed"),
    ("up/secret.txt", "links are not followed"),
    ("docs/secret.txt", "links are not followed; ask for the file that it leads to"),
    ("docs/guide.txt/more", "is not a directory"),
    ("docs", "it is a directory; use list_directory"),
    ("", "it is a directory; use list_directory"),
    (".", "it is a directory; use list_directory"),
    ("pipe", "only files are read"),
    ("socket", "only files are read"),
    ("a" * 256, "a name that is too long"),
    ("nothing", "nothing of that name"),
]


@pytest.mark.parametrize(("path", "says"), REFUSED, ids=lambda text: repr(text[:30]))
async def test_what_is_not_read_is_explained(path: str, says: str, server: Registry) -> None:
    async with connect(server) as client:
        result = await client.call_tool("read_file", {"path": path})
        assert not result.success
        assert says in result.error
        assert repr(path[:200]) in result.error


@pytest.mark.parametrize("path", ["out", "up", "..", "/", "docs/guide.txt", "no", "pipe", "x\0"])
@pytest.mark.parametrize("tool", ["list_directory", "find_files", "search_text"])
async def test_directories_are_refused_likewise(tool: str, path: str, server: Registry) -> None:
    more = {"find_files": {"pattern": "*"}, "search_text": {"text": "e"}}.get(tool, {})
    with pytest.raises(ToolError):
        await server.call(tool, {"path": path, **more})


@pytest.mark.parametrize(
    "arguments",
    [
        {"path": "data.bin", "start": -1},
        {"path": "data.bin", "start": 2**53},
        {"path": "data.bin", "length": MOST_BYTES + 1},
        {"path": "data.bin", "length": 0},
        {"path": "a/" * 2049},
        {"path": ["data.bin"]},
        {},
    ],
    ids=str,
)
async def test_arguments_have_bounds(arguments: dict[str, Any], server: Registry) -> None:
    with pytest.raises(McpError, match="Invalid arguments"):
        await server.call("read_file", arguments)


async def test_a_name_that_is_no_unicode_cannot_be_asked_for(server: Registry) -> None:
    with pytest.raises(ToolError, match="no path here has"):
        await server.call("read_file", {"path": os.fsdecode(b"caf\xe9")})


# -- large, growing, unreadable ---------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        "ä日🐟\n".encode() * 50,
        b"\xff\xfe" * 100,
        b"text, and then\0binary" * 20,
        "ends within a character: é".encode()[:-1],
    ],
)
async def test_parts_make_up_the_file(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(content)
    async with connect(file_server(tmp_path)) as client:
        for length in (16, 17, 18, 19, len(content), len(content) + 1):
            if length >= 16:
                assert await read_all(client, "file", length=length) == content


async def test_of_a_huge_file_a_part_is_read(tmp_path: Path) -> None:
    with (tmp_path / "huge").open("wb") as file:
        file.write(b"needle\n")
        file.truncate(2**40)
    server = file_server(tmp_path)
    part = await server.call("read_file", {"path": "huge"})
    assert (part.size, part.next, len(base64.b64decode(part.base64))) == (2**40, 65536, 65536)
    part = await server.call("read_file", {"path": "huge", "start": 2**40 - 3})
    assert (part.next, base64.b64decode(part.base64)) == (None, bytes(3))
    part = await server.call("read_file", {"path": "huge", "start": 2**41})
    assert (part.next, part.text) == (None, "")
    found = await server.call("search_text", {"text": "needle"})
    assert found.notes == ["Of files larger than 1 MiB, only the beginning was searched."]
    async with connect(server) as client:
        with pytest.raises(McpError, match="larger than"):
            await client.read_resource("tree:///huge")


async def test_what_may_not_be_read_is_told(
    root: Path, server: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the system would say it to somebody who is not its administrator."""

    def refuse(name: Any, *args: Any, **options: Any) -> int:
        if name in ("data.bin", "deep"):
            raise PermissionError(13, "Permission denied")
        return open_really(name, *args, **options)

    open_really = os.open
    monkeypatch.setattr(os, "open", refuse)
    for tool, path in (("read_file", "data.bin"), ("list_directory", "docs/deep")):
        with pytest.raises(ToolError, match="only its owner can change that"):
            await server.call(tool, {"path": path})
    found = await server.call("search_text", {"text": "this"})
    assert [(line.path, line.number) for line in found.lines] == [
        ("docs/guide.txt", 1),
        ("docs/guide.txt", 2),
    ]
    assert "Directories that this server may not read are left out." in found.notes
    assert "Files that this server may not read are left out." in found.notes


async def test_trouble_of_the_servers_own_is_not_blamed_on_the_path(
    server: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> int:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(OSError, match="Too many open files"):
        await server.call("read_file", {"path": "data.bin"})


# -- searching --------------------------------------------------------------------------------


async def test_files_are_found(server: Registry) -> None:
    async def find(pattern: str, path: str = "") -> list[str]:
        return (await server.call("find_files", {"pattern": pattern, "path": path})).paths

    assert await find("*") == ["data.bin", f"docs/deep/{ODD_NAME}", "docs/guide.txt", "empty"]
    assert await find("docs/*.txt") == ["docs/guide.txt"]
    assert await find("*", "docs/deep") == [f"docs/deep/{ODD_NAME}"]
    assert await find("../*") == await find("/*") == await find("*a" * 99 + "b") == []
    with pytest.raises(ToolError, match="no pattern"):
        await find(".")


async def test_lines_are_found(server: Registry) -> None:
    found = await server.call("search_text", {"text": "thÏs"})
    assert [(each.path, each.number, each.text) for each in found.lines] == [
        (f"docs/deep/{ODD_NAME}", 1, "thïs too")
    ]
    assert (await server.call("search_text", {"text": "abc"})).lines == []  # data.bin is binary
    for arguments in ({"text": SECRET}, {"text": SECRET, "pattern": "secret.txt"}):
        assert (await server.call("search_text", arguments)).lines == []


async def test_searches_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = tmp_path.joinpath(*"d" * (files.MOST_LEVELS + 1))
    deep.mkdir(parents=True)
    (deep / "file").touch()
    for number in range(5):
        (tmp_path / f"{number}.txt").write_text(f"{'x' * 300}line\n" * 2)
    server = file_server(tmp_path)
    found = await server.call("find_files", {"pattern": "file"})
    assert (found.paths, len(found.notes)) == ([], 1)
    assert "levels down are left out" in found.notes[0]

    def few(left: int) -> list[str]:
        walk = Walk(left)
        directory = os.open(tmp_path, os.O_RDONLY)
        try:
            paths = [path for _, _, path in walk.files(directory, [])]
        finally:
            os.close(directory)
        assert any("entries were looked at" in note for note in walk.notes)
        return paths

    assert len(await trio.to_thread.run_sync(few, 3)) <= 3

    monkeypatch.setattr(files, "MOST_ENTRIES", 2)
    monkeypatch.setattr(files, "MOST_FOUND", 3)
    listing = await server.call("list_directory")
    assert (len(listing.entries), len(listing.notes)) == (2, 1)
    assert len((await server.call("find_files", {"pattern": "*.txt"})).paths) == 3
    lines = await server.call("search_text", {"text": "LINE"})
    assert [(each.path, each.number) for each in lines.lines] == [
        ("0.txt", 1),
        ("0.txt", 2),
        ("1.txt", 1),
    ]
    assert all(each.text.endswith("xline") and len(each.text) < 100 for each in lines.lines)
    assert lines.notes
    monkeypatch.setattr(files, "MOST_SEARCHED", 700)
    monkeypatch.setattr(files, "MOST_FOUND", 100)
    lines = await server.call("search_text", {"text": "line"})
    assert len(lines.lines) == 2
    assert lines.notes


async def test_a_search_that_nobody_waits_for_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        (tmp_path / f"{number}.txt").write_text("text")
    reading, go_on = trio.Event(), threading.Event()
    reads: list[int] = []

    def read_slowly(*arguments: int) -> bytes:
        reads.append(arguments[0])
        trio.from_thread.run_sync(reading.set)
        go_on.wait(TIME_LIMIT)
        return b""

    monkeypatch.setattr(files, "read_at", read_slowly)
    with trio.fail_after(TIME_LIMIT):
        async with connect(file_server(tmp_path), limits=Limits(max_worker_threads=1)) as client:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(client.call_tool, "search_text", {"text": "text"})
                await reading.wait()
                nursery.cancel_scope.cancel()
            await wait_all_tasks_blocked()  # until the server has heard of it
            go_on.set()
            # There is one thread, so it has come to an end before this one is served.
            assert (await client.call_tool("stat", {"path": ""})).success
    assert len(reads) == 1


# -- races ------------------------------------------------------------------------------------


@pytest.mark.parametrize("tool", ["read_file", "search_text", "list_directory"])
@pytest.mark.parametrize("moment", ["inner", "file.txt"])
async def test_a_directory_that_becomes_a_link_leads_nowhere(
    tool: str, moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is swapped at the worst moments: just before it is opened, and just after."""
    inner = tmp_path / "root" / "inner"
    inner.mkdir(parents=True)
    (inner / "file.txt").write_text("the real one")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file.txt").write_text(SECRET)
    server = file_server(tmp_path / "root")
    swapped = []

    def open_late(name: Any, *args: Any, **options: Any) -> int:
        if name == moment and not swapped:
            inner.rename(tmp_path / "moved")
            inner.symlink_to(tmp_path / "outside")
            swapped.append(name)
        return open_really(name, *args, **options)

    open_really = os.open
    monkeypatch.setattr(os, "open", open_late)
    path = "inner/file.txt" if tool == "read_file" else "inner"
    more = {"text": "e"} if tool == "search_text" else {}
    async with connect(server) as client:
        result = await client.call_tool(tool, {"path": path, **more})
    assert swapped == [moment] or (tool, moment) == ("list_directory", "file.txt")
    assert SECRET not in result.text
    if moment == "inner":
        assert "links are not followed" in result.error
    elif tool != "list_directory":
        assert "the real one" in result.text


@pytest.mark.parametrize("kind", ["link", "pipe", "directory", "nothing"])
async def test_a_file_that_becomes_something_else_is_not_read(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "root").mkdir()
    file = tmp_path / "root" / "file.txt"
    file.write_text("harmless")
    (tmp_path / "secret.txt").write_text(SECRET)
    become = {
        "link": lambda: file.symlink_to(tmp_path / "secret.txt"),
        "pipe": lambda: os.mkfifo(file),
        "directory": file.mkdir,
        "nothing": lambda: None,
    }

    def open_late(name: Any, *args: Any, **options: Any) -> int:
        if name == "file.txt":
            file.unlink()
            become[kind]()
        return open_really(name, *args, **options)

    open_really = os.open
    monkeypatch.setattr(os, "open", open_late)
    with trio.fail_after(TIME_LIMIT), pytest.raises(ToolError):
        await file_server(tmp_path / "root").call("read_file", {"path": "file.txt"})


# -- any path ---------------------------------------------------------------------------------

PIECES = st.sampled_from(
    [
        "..", ".", "", "docs", "deep", "out", "up", "pipe", "root", "outside", "secret.txt",
        "guide.txt", "data.bin", "%2e%2e", "%2e", "..%2f", "%00", "\0", "~", "*", "\\", "..\\",
        "a" * 300, ODD_NAME, "two\nlines", "caf\udce9",
    ]
)  # fmt: skip
NAMES = PIECES | st.text(max_size=5) | st.lists(PIECES, max_size=3).map("".join)
SLASHES = st.sampled_from(["/", "//", "/./", "\\", "%2f", "∕"])


@st.composite
def paths(draw: st.DrawFn) -> str:
    names = draw(st.lists(NAMES, max_size=6))
    path = "".join(name + draw(SLASHES) for name in names[:-1]) + (names[-1] if names else "")
    return draw(st.sampled_from(["", "", "/", "../", "{root}/", "{above}/"])) + path


@pytest.mark.long
@given(path=paths())
@example(path="{above}/secret.txt")
@example(path="{root}/../secret.txt")
@example(path="up/secret.txt")
def test_no_path_reads_outside_the_root(path: str, root: Path) -> None:
    server = file_server(root)
    path = path.replace("{root}", str(root)).replace("{above}", str(root.parent))
    calls = {
        "read_file": {},
        "list_directory": {},
        "stat": {},
        "search_text": {"text": "e"},
        "find_files": {"pattern": "*"},
    }

    async def main() -> None:
        async with connect(server) as client:
            for tool, more in calls.items():
                try:
                    value = await server.call(tool, {"path": path, **more})
                except (ToolError, McpError):  # and nothing else is raised
                    continue
                assert SECRET not in repr(value)
                for found in found_in(value):
                    real = os.path.realpath(root / found)
                    assert os.path.commonpath([real, root]) == str(root) or (
                        (root / found).is_symlink() and tool in ("stat", "list_directory")
                    )
                if tool == "read_file":
                    assert (root / value.path).read_bytes() == content_of(value)
            try:
                uri = f"tree:///{path}".encode(errors="replace").decode()
                assert SECRET.encode() not in (await client.read_resource(uri)).data
            except (ResourceNotFound, McpError):
                pass

    trio.run(main)


def found_in(value: Any) -> list[str]:
    """The paths in what a tool returned."""
    kinds = {
        "Part": lambda: [value.path],
        "Entry": lambda: [value.path],
        "Listing": lambda: [each.path for each in value.entries],
        "Matches": lambda: [each.path for each in value.lines],
        "Found": lambda: value.paths,
    }
    return kinds[type(value).__name__]()


def content_of(part: Any) -> bytes:
    return base64.b64decode(part.base64) if part.text is None else part.text.encode()


async def test_no_descriptor_is_left_open(server: Registry) -> None:
    async def use_it() -> None:
        for path in ("", "docs/guide.txt", *(path for path, _ in REFUSED)):
            for tool, more in (
                ("read_file", {}),
                ("stat", {}),
                ("list_directory", {}),
                ("find_files", {"pattern": "*"}),
                ("search_text", {"text": "e"}),
            ):
                try:
                    await server.call(tool, {"path": path, **more})
                except ToolError:
                    pass

    await use_it()
    before = os.listdir("/proc/self/fd")
    await use_it()
    assert os.listdir("/proc/self/fd") == before
