"""Files and directories as resources: what is served, and that no URI leads outside."""

from __future__ import annotations

import base64
import json
import os
import shutil
import socket
import threading
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.features.ways import client_of, each_quick_client, not_found, reaching
from tests.support.client import RawClient, serving
from tests.support.errors import own_error
from tests.support.tools import each_revision, error_of
from trio_mcp import McpError, Registry, ResourceNotFound, connect
from trio_mcp.schema import SchemaError

pytestmark = pytest.mark.requirement("H1")

DOCS = "docs:///{+path}"
SECRET = "the secret that lies outside"
INSIDE = "this lies inside"
TREE: dict[str, bytes] = {
    "readme.md": b"# Read me\r\n",
    "guide/one.txt": INSIDE.encode(),
    "guide/two.txt": b"two",
    "guide/deep/er/three.txt": b"three",
    "with space.txt": b"space",
    "\u00fcnicode \u2603.txt": "☃".encode(),
    "100%.txt": b"percent",
    "a?b#c.txt": b"reserved",
    "..hidden": b"dots",
    "%2e": b"not decoded twice",
    "empty.txt": b"",
    "data.json": b'{"a": 1}',
    "page.html": b"<p>",
    "code.py": b"pass\n",
    "picture.png": b"\x89PNG\r\n\x1a\n\0",
    "archive.tar.gz": b"\x1f\x8b\0",
    "unknown.xyzzy": b"plain words",
    "no-text.txt": b"\xff\xfe\0",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A directory with files and with every kind of trap; beside it, a secret."""
    root = tmp_path / "root"
    for name, data in TREE.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    outside = tmp_path / "outside"
    outside.mkdir()
    for path in (outside / "secret.txt", tmp_path / "secret.txt", tmp_path / "root-secret.txt"):
        path.write_text(SECRET)
    (root / "link").symlink_to(outside / "secret.txt")
    (root / "relative-link").symlink_to("../outside/secret.txt")
    (root / "link-to-directory").symlink_to(outside)
    (root / "link-inside").symlink_to(root / "readme.md")
    (root / "link-to-inner-directory").symlink_to(root / "guide")
    (root / "link-to-itself").symlink_to("link-to-itself")
    (root / "link-to-parent").symlink_to("..")
    (root / "dangling").symlink_to("nowhere")
    os.mkfifo(root / "fifo")
    with socket.socket(socket.AF_UNIX) as bound:
        here = os.getcwd()
        os.chdir(root)  # the path of a socket is short
        bound.bind("socket")
        os.chdir(here)
    return root


def served(root: Path, uri: str = DOCS, **options: Any) -> Registry:
    registry = Registry("files")
    registry.add_directory(uri, root, **options)
    return registry


async def read(client: RawClient, uri: str) -> Any:
    return await client.request("resources/read", {"uri": uri})


# -- what is served -------------------------------------------------------------------------------


def uri_of(name: str) -> str:
    return "docs:///" + quote(name)


def expected_of(name: str, uri: str) -> dict[str, Any]:
    kinds = {
        "md": "text/markdown",
        "txt": "text/plain",
        "json": "application/json",
        "html": "text/html",
        "py": "text/x-python",
        "png": "image/png",
        "gz": "application/gzip",
    }
    suffix = name.rpartition(".")[2] if not name.startswith((".", "%")) else ""
    mime_type = kinds.get(suffix, "application/octet-stream")
    data = TREE[name]
    if mime_type.startswith("text/") or mime_type == "application/json":
        try:
            return {"uri": uri, "text": data.decode(), "mimeType": mime_type}
        except UnicodeDecodeError:
            pass
    return {"uri": uri, "blob": base64.b64encode(data).decode(), "mimeType": mime_type}


@each_revision
async def test_files_are_text_where_they_are_and_bytes_otherwise(revision: str, root: Path) -> None:
    async with serving(served(root), revision=revision) as (client, _):
        for name in TREE:
            uri = uri_of(name)
            [contents] = (await read(client, uri))["result"]["contents"]
            assert contents == expected_of(name, uri)


async def test_letters_beyond_ascii_need_no_encoding(root: Path) -> None:
    async with serving(served(root)) as (client, _):
        [contents] = (await read(client, "docs:///\u00fcnicode%20\u2603.txt"))["result"]["contents"]
        assert contents["text"] == "☃"


@pytest.mark.parametrize("way", ["memory", "stdio"])
async def test_a_directory_by_every_way(way: str, root: Path) -> None:
    async with reaching(way, "2026-07-28", root) as client:
        [contents] = (await read(client, "docs:///guide/one.txt"))["result"]["contents"]
        assert contents["text"] == INSIDE
        for uri in ("docs:///../secret.txt", "docs:///link", "docs:///%2e%2e/secret.txt"):
            assert own_error(await read(client, uri)) == not_found("2026-07-28", uri)


@each_quick_client
async def test_the_client_gets_text_or_bytes(way: str, era: str, root: Path) -> None:
    async with client_of(served(root), way, era) as client:
        text = await client.read_resource("docs:///guide/one.txt")
        assert (text.text, text.data) == (INSIDE, INSIDE.encode())
        picture = await client.read_resource("docs:///picture.png")
        assert (picture.text, picture.data) == ("", TREE["picture.png"])
        for uri in ("docs:///../secret.txt", "docs:///link", "docs:///guide", "docs:///"):
            with pytest.raises(ResourceNotFound):
                await client.read_resource(uri)


@each_revision
async def test_a_declared_media_type_is_that_of_all_files(revision: str, root: Path) -> None:
    """Whether they are text is still asked of the bytes."""
    registry = served(root, mime_type="text/x-notes", title="Notes", name="notes")
    async with serving(registry, revision=revision) as (client, _):
        [text] = (await read(client, "docs:///data.json"))["result"]["contents"]
        assert (text["mimeType"], text["text"]) == ("text/x-notes", '{"a": 1}')
        [data] = (await read(client, "docs:///picture.png"))["result"]["contents"]
        assert data["mimeType"] == "text/x-notes"
        assert "blob" in data
        result = (await client.request("resources/templates/list"))["result"]
        [listed] = result["resourceTemplates"]
        assert (listed["name"], listed["mimeType"]) == ("notes", "text/x-notes")


async def test_what_changes_is_read_anew(root: Path) -> None:
    async with serving(served(root)) as (client, _):
        for words in ("first", "second"):
            (root / "note.txt").write_text(words)
            [contents] = (await read(client, "docs:///note.txt"))["result"]["contents"]
            assert contents["text"] == words
        (root / "note.txt").unlink()
        answer = await read(client, "docs:///note.txt")
        assert own_error(answer) == not_found(client.revision, "docs:///note.txt")
        shutil.rmtree(root)
        answer = await read(client, "docs:///readme.md")
        assert own_error(answer) == not_found(client.revision, "docs:///readme.md")


async def test_caching_hints_of_files(root: Path) -> None:
    registry = served(root, cache_ttl=3, cache_scope="public")
    async with serving(registry, revision="2026-07-28") as (client, _):
        result = (await read(client, "docs:///readme.md"))["result"]
        assert (result["ttlMs"], result["cacheScope"]) == (3000, "public")


@pytest.mark.parametrize(
    ("uri", "given"),
    [
        ("docs:///{path}", "docs:///guide%2Fone.txt"),
        ("docs://{/path}", "docs:///guide%2Fone.txt"),
        ("docs:get{?file}", "docs:get?file=guide%2Fone.txt"),
        ("docs:{+path}", "docs:guide/one.txt"),
        ("docs:///{+path}.txt", "docs:///guide/one.txt.txt"),
    ],
)
async def test_the_variable_may_stand_anywhere(uri: str, given: str, root: Path) -> None:
    async with serving(served(root, uri)) as (client, _):
        if given.endswith(".txt.txt"):
            given = given.removesuffix(".txt")
            (root / "guide/one").write_text(INSIDE)
        [contents] = (await read(client, given))["result"]["contents"]
        data = contents.get("text") or base64.b64decode(contents["blob"]).decode()
        assert data == INSIDE


async def test_a_relative_root_is_where_it_was_at_registration(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(root)
    registry = served(Path("guide"))
    registry.add_directory("here:{+path}", ".")
    registry.add_file("file:one", "readme.md")
    monkeypatch.chdir(tmp_path)
    async with serving(registry) as (client, _):
        for uri in ("docs:///one.txt", "here:guide/one.txt", "file:one"):
            assert "result" in await read(client, uri)
        result = (await client.request("resources/templates/list"))["result"]
        assert [each["name"] for each in result["resourceTemplates"]] == ["guide", "root"]


# -- attacks --------------------------------------------------------------------------------------

UP = ["..", "%2e%2e", "%2E%2e", ".%2e", "%2e.", "%252e%252e", "..%00", "%c0%ae%c0%ae", "．．"]
SLASH = ["/", "%2f", "%2F", "\\", "%5c", "%255c", "%c0%af", "//", "/./", "%2f%2f", "∕"]


def attacks(root: Path) -> Iterator[str]:
    """Paths, as they stand in URIs, none of which may find anything."""
    outside = root.parent / "outside" / "secret.txt"
    for up in UP:
        for slash in SLASH:
            yield f"{up}{slash}secret.txt"
            yield f"guide{slash}{up}{slash}{up}{slash}secret.txt"
            yield f"guide{slash}{up}{slash}readme.md"  # inside, but not that way
            yield f"{slash}{up}{slash}{up}{slash}etc{slash}passwd"
            yield f"{up}{slash}root{slash}readme.md"
            yield f"{up}{slash}root-secret.txt"
        yield up
        yield f"guide/{up}"
    for absolute in (str(outside), "/etc/passwd", "/proc/self/environ", "/dev/zero", "/dev/stdin"):
        yield absolute
        yield quote(absolute, safe="")
        yield "/" + absolute
        yield f"file://{absolute}"
        yield f"file:{absolute}"
    for link in (
        "link",
        "relative-link",
        "link-inside",
        "link-to-itself",
        "dangling",
        "link-to-directory",
        "link-to-directory/secret.txt",
        "link-to-directory%2fsecret.txt",
        "link-to-inner-directory/one.txt",
        "link-to-parent/secret.txt",
        "link-to-parent/root/readme.md",
        "guide/../link",
    ):
        yield link
        yield f"./{link}"
    yield from (
        "fifo",
        "socket",
        "guide",
        "guide/",
        "guide/deep",
        ".",
        "./",
        "",
        "/",
        "guide//one.txt",
    )
    for name in ("readme.md", "guide/one.txt"):
        yield f"./{name}"
        yield f"/{name}"
        yield f"{name}/"
        yield f"{name}/."
        yield f"{name}%00"
        yield f"{name}%00.png"
        yield f"%00{name}"
        yield f"{name}%0a"
        yield f"{name}%0d%0a"
        yield f"{name}%7f"
        yield f"{name}%c2%85"
        yield f"{name}%20"
        yield f"%20{name}"
        yield f"{name}."
        yield f"{name}::$DATA"
        yield name.upper()
        yield name.replace("e", "%65%cc%81")
        yield f"{name}%ff"
        yield f"{name}%"
        yield f"{name}%2"
        yield f"{name}%zz"
        yield f"{name}\\"
        yield f"{name}?"
        yield f"{name}?x=1"
        yield f"{name}#"
        yield f"{name} "
        yield f"{name}\n"
        yield f"{name}\0"
    yield "C:\\Windows\\win.ini"
    yield "~/.ssh/id_rsa"
    yield "~root/.profile"
    yield "$HOME/.profile"
    yield "*"
    yield "guide/*"
    yield "a" * 256
    yield "a" * 8000
    yield "a" * 100_000
    yield "/".join(["a"] * 3000)
    yield "guide/" * 1000 + "one.txt"
    yield "../" * 2000 + "etc/passwd"
    yield "%2e%2e%2f" * 800 + "etc/passwd"
    yield quote("ü" * 200)


@pytest.mark.parametrize(("revision", "every"), [("2025-11-25", 10), ("2026-07-28", 1)])
async def test_no_uri_leads_outside(revision: str, every: int, root: Path) -> None:
    """Each of them gets the error of a file that is not there, and nothing else."""
    tried = 0
    async with serving(served(root), revision=revision) as (client, _):
        for path in islice(attacks(root), 0, None, every):
            uri = f"docs:///{path}"
            answer = await read(client, uri)
            assert own_error(answer) == not_found(revision, uri), uri
            assert SECRET not in json.dumps(answer)
            tried += 1
        [contents] = (await read(client, "docs:///guide/one.txt"))["result"]["contents"]
        assert contents["text"] == INSIDE, "the tree is there"
    assert tried > 700 // every


TEMPLATES = ["x:{path}", "x://h{/path}", "x:{?path}"]


@pytest.mark.parametrize("uri", TEMPLATES)
async def test_no_uri_leads_outside_however_the_template_is_written(uri: str, root: Path) -> None:
    """They differ in what may stand around the path and not in it: so each is tried with one."""
    head = uri.partition("{")[0]
    between = {"x:{path}": "", "x://h{/path}": "/"}
    joined = between.get(uri, uri.partition("{")[2][0] + "path=")
    async with serving(served(root, uri)) as (client, _):
        for path in islice(attacks(root), TEMPLATES.index(uri), None, len(TEMPLATES)):
            for spelt in {path, quote(path, safe="")}:
                answer = await read(client, f"{head}{joined}{spelt}")
                if "result" in answer:  # a name that means another file here
                    [contents] = answer["result"]["contents"]
                    data = contents.get("text", "").encode() or base64.b64decode(
                        contents.get("blob", "")
                    )
                    assert data in TREE.values()
                    assert SECRET.encode() not in data
                else:
                    assert answer["error"]["code"] == -32002


async def test_a_name_that_only_looks_like_an_escape_is_a_name(root: Path) -> None:
    async with serving(served(root)) as (client, _):
        for path, name in (("%252e", "%2e"), ("..hidden", "..hidden")):
            [contents] = (await read(client, f"docs:///{path}"))["result"]["contents"]
            assert base64.b64decode(contents["blob"]) == TREE[name]


@pytest.mark.long
async def test_a_directory_that_becomes_a_link_while_it_is_read(root: Path) -> None:
    """However the two follow each other, what lies outside is never returned."""
    swapped, real = root / "swapped", root.parent / "real"
    real.mkdir()
    (real / "secret.txt").write_text(INSIDE)
    swapped.mkdir()
    (swapped / "secret.txt").write_text(INSIDE)
    stop = threading.Event()

    def swap() -> None:
        aside, link = root.parent / "aside", root.parent / "link"
        while not stop.is_set():
            link.symlink_to(root.parent / "outside")
            swapped.rename(aside)
            link.rename(swapped)
            swapped.rename(link)
            aside.rename(swapped)
            link.unlink()

    thread = threading.Thread(target=swap)
    thread.start()
    found = set()
    try:
        async with serving(served(root)) as (client, _):
            for _ in range(300):
                answer = await read(client, "docs:///swapped/secret.txt")
                found.add(
                    answer["result"]["contents"][0]["text"]
                    if "result" in answer
                    else answer["error"]["message"]
                )
    finally:
        stop.set()
        thread.join()
    assert found <= {INSIDE, "Resource not found: docs:///swapped/secret.txt"}


async def test_attacks_leave_no_descriptor_open(root: Path) -> None:
    async with serving(served(root)) as (client, _):
        await read(client, "docs:///readme.md")
        before = os.listdir("/proc/self/fd")
        for path in attacks(root):
            await read(client, f"docs:///{path}")
        assert len(os.listdir("/proc/self/fd")) == len(before)


# -- size -----------------------------------------------------------------------------------------


@each_revision
async def test_a_file_that_is_too_large_is_named_and_not_read(revision: str, root: Path) -> None:
    (root / "guide" / "big.txt").write_bytes(b"x" * 11)
    (root / "guide" / "fits.txt").write_bytes(b"x" * 10)
    registry = served(root, max_bytes=10)
    registry.add_file("file:big", root / "guide" / "big.txt", max_bytes=10)
    async with serving(registry, revision=revision) as (client, _):
        answer = await read(client, "docs:///guide/big.txt")
        assert error_of(answer) == (-32603, "the file 'guide/big.txt' is larger than 10 bytes")
        answer = await read(client, "file:big")
        assert error_of(answer) == (-32603, "the file 'big.txt' is larger than 10 bytes")
        assert str(root) not in json.dumps(answer)
        assert "result" in await read(client, "docs:///guide/fits.txt")


async def test_a_large_file_comes_whole(root: Path) -> None:
    data = os.urandom(3_000_000)
    (root / "large.bin").write_bytes(data)
    async with connect(served(root)) as client:
        assert (await client.read_resource("docs:///large.bin")).data == data


# -- files ----------------------------------------------------------------------------------------


@each_revision
async def test_one_file(revision: str, root: Path) -> None:
    registry = Registry("files")
    registry.add_file("notes:readme", root / "readme.md")
    registry.add_file("notes:picture", root / "picture.png", title="A picture", name="pic")
    registry.add_file("notes:linked", root / "link-inside", mime_type="text/x-mine")
    registry.add_file("notes:missing", root / "missing.txt")
    async with serving(registry, revision=revision) as (client, _):
        [text] = (await read(client, "notes:readme"))["result"]["contents"]
        assert text == {
            "uri": "notes:readme",
            "text": TREE["readme.md"].decode(),
            "mimeType": "text/markdown",
        }
        [picture] = (await read(client, "notes:picture"))["result"]["contents"]
        assert base64.b64decode(picture["blob"]) == TREE["picture.png"]
        [linked] = (await read(client, "notes:linked"))["result"]["contents"]
        assert (linked["text"], linked["mimeType"]) == (text["text"], "text/x-mine")
        missing = await read(client, "notes:missing")
        assert own_error(missing) == not_found(revision, "notes:missing")
        listed = (await client.request("resources/list"))["result"]["resources"]
        assert [(each["name"], each["mimeType"]) for each in listed] == [
            ("readme.md", "text/markdown"),
            ("pic", "image/png"),
            ("readme.md", "text/x-mine"),
            ("missing.txt", "text/plain"),
        ]
        (root / "missing.txt").write_text("here now")
        assert "result" in await read(client, "notes:missing")


async def test_a_file_that_becomes_a_link_is_not_there(root: Path) -> None:
    registry = Registry("files")
    registry.add_file("notes:readme", root / "readme.md")
    (root / "readme.md").unlink()
    (root / "readme.md").symlink_to(root.parent / "secret.txt")
    async with serving(registry) as (client, _):
        answer = await read(client, "notes:readme")
        assert own_error(answer) == not_found(client.revision, "notes:readme")


# -- completion of paths --------------------------------------------------------------------------


async def completed(client: RawClient, value: str) -> list[str]:
    answer = await client.request(
        "completion/complete",
        {
            "ref": {"type": "ref/resource", "uri": DOCS},
            "argument": {"name": "path", "value": value},
        },
    )
    values: list[str] = answer["result"]["completion"]["values"]
    return values


@each_revision
async def test_paths_are_completed_with_files_that_can_be_read(revision: str, root: Path) -> None:
    async with serving(served(root), revision=revision) as (client, _):
        assert await completed(client, "guide/") == [
            "guide/deep/er/three.txt",
            "guide/one.txt",
            "guide/two.txt",
        ]
        assert await completed(client, "guide/t") == ["guide/two.txt"]
        assert await completed(client, "gui") == await completed(client, "guide/")
        everything = await completed(client, "")
        assert everything == sorted(TREE)
        for name in everything:
            assert "result" in await read(client, uri_of(name))
        for prefix in (
            "link",
            "../",
            "..",
            "/",
            "guide/../",
            "link-to-directory/",
            "nowhere/",
            "\0",
        ):
            found = await completed(client, prefix)
            assert found == (["..hidden"] if prefix == ".." else [])


async def test_only_the_first_of_many_paths_are_suggested(tmp_path: Path) -> None:
    for number in range(250):
        (tmp_path / f"{number:03}.txt").touch()
    async with connect(served(tmp_path)) as client:
        found = await client.complete("path", "", resource=DOCS)
        assert found.values == [f"{number:03}.txt" for number in range(100)]
        assert (found.total, found.has_more) == (250, True)


# -- registration ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("uri", "words"),
    [
        ("docs:///", "{name}"),
        ("docs:///{a}/{b}", "one variable, such as {+path}"),
        ("docs://{/path*}", "one variable, such as {+path}"),
        ("docs:///{+path", "docs"),
        ("{+path}", "scheme"),
        ("docs:///{+my.path}", "plain name"),
        ("docs:///{+class}", "plain name"),
        ("docs:///{+_context}", "plain name"),
        ("docs:///a b/{+path}", "percent-encode"),
        ("taken:{+path}", "registered already"),
    ],
)
def test_what_cannot_be_a_directory_is_refused(uri: str, words: str, root: Path) -> None:
    registry = served(root, "taken:{+path}")
    with pytest.raises(SchemaError) as caught:
        registry.add_directory(uri, root)
    assert words in str(caught.value)
    assert list(registry.resource_templates) == ["taken:{+path}"]


@pytest.mark.parametrize(
    ("uri", "words"),
    [("docs:{x}", "no variables"), ("docs", "scheme"), ("taken:one", "registered already")],
)
def test_what_cannot_be_a_file_is_refused(uri: str, words: str, root: Path) -> None:
    registry = Registry("files")
    registry.add_file("taken:one", root / "readme.md")
    with pytest.raises(SchemaError) as caught:
        registry.add_file(uri, root / "readme.md")
    assert words in str(caught.value)


async def test_a_root_that_is_not_there_yet(tmp_path: Path) -> None:
    async with connect(served(tmp_path / "later")) as client:
        with pytest.raises(ResourceNotFound):
            await client.read_resource("docs:///a.txt")
        assert (await client.complete("path", "", resource=DOCS)).values == []
        (tmp_path / "later").mkdir()
        (tmp_path / "later" / "a.txt").write_text("here")
        assert (await client.read_resource("docs:///a.txt")).text == "here"


async def test_trouble_of_our_own_is_no_missing_file(
    root: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as too many open files: the caller is told nothing of it, the log everything."""
    import resource as system

    soft, hard = system.getrlimit(system.RLIMIT_NOFILE)
    async with connect(served(root)) as client:
        await client.read_resource("docs:///readme.md")  # a worker thread is there
        lowest_free = os.dup(0)
        os.close(lowest_free)
        system.setrlimit(system.RLIMIT_NOFILE, (lowest_free, hard))
        try:
            with pytest.raises(McpError) as caught:
                await client.read_resource("docs:///guide/one.txt")
        finally:
            system.setrlimit(system.RLIMIT_NOFILE, (soft, hard))
    assert caught.value.code == -32603
    assert str(root) not in str(caught.value)
    assert "Too many open files" in caplog.text


async def test_many_files_are_read_side_by_side(root: Path) -> None:
    async with serving(served(root)) as (client, _):
        requests = [client.request_of("resources/read", {"uri": uri_of(name)}) for name in TREE]
        await client.send(*requests)
        answers = await client.receive_many(len(requests))
        assert all("result" in each for each in answers.values())
