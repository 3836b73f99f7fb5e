"""Serving skills: what is read from where, what is refused, and what becomes of changes."""

import base64
import hashlib
import json
import logging
import os
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.extensions.skills.support import FORMS, URI, put_skill, served, skill_md, write
from tests.extensions.ways import raw
from tests.support.client import LEGACY, MODERN
from trio_mcp import McpError, Registry, ResourceNotFound, SchemaError
from trio_mcp.extensions.skills import DynamicSkill, Skill, Skills, SkillsClient
from trio_mcp.extensions.skills.directory import Directory
from trio_mcp.extensions.skills.format import (
    IDENTIFIER,
    LONGEST_URI,
    MOST_BYTES,
    MOST_FILES,
    path_of,
)

pytestmark = pytest.mark.requirement("K4")


async def entries(client: Any) -> dict[str, Any]:
    return {entry["uri"]: entry for entry in await client.list_all("skills/list", "skills")}


# -- what is served -------------------------------------------------------------------------------


async def test_a_directory_of_skills(tmp_path: Path) -> None:
    put_skill(tmp_path, "git-workflow", "metadata: {version: '2.1'}\nsince: 2024-01-31\n")
    put_skill(tmp_path, "acme/billing/refunds")
    write(tmp_path, "README.md", "no part of any skill")
    write(tmp_path, "git-workflow/.DS_Store", "x")
    write(tmp_path, "git-workflow/scripts/__pycache__/x.pyc", b"x")
    async with served(Skills(tmp_path)) as (client, _):
        assert client.extensions == {IDENTIFIER: {"directoryRead": True}}
        assert "resources" in client.capabilities
        found = await entries(client)
        assert list(found) == ["skill://acme/billing/refunds/SKILL.md", URI]
        text = (tmp_path / "git-workflow/SKILL.md").read_bytes()
        forms = b"# Forms\n"
        assert found[URI] == {
            "uri": URI,
            "frontmatter": {
                "name": "git-workflow",
                "description": "How to do it",
                "metadata": {"version": "2.1"},
                "since": "2024-01-31",
            },
            "resources": [
                {
                    "uri": URI,
                    "digest": f"sha256:{hashlib.sha256(text).hexdigest()}",
                    "size": len(text),
                },
                {
                    "uri": FORMS,
                    "digest": f"sha256:{hashlib.sha256(forms).hexdigest()}",
                    "size": 8,
                },
            ],
        }
        got = await client.request("skills/get", {"uri": URI})
        assert got["skill"] == found[URI]
        assert (got["ttlMs"], got["cacheScope"]) == (0, "public")
        [listed] = [resource for resource in await client.list_resources() if resource.uri == URI]
        assert (listed.name, listed.description) == ("git-workflow", "How to do it")
        assert (listed.mime_type, listed.size) == ("text/markdown", len(text))
        assert (await client.read_resource(FORMS)).text == "# Forms\n"


async def test_a_directory_that_is_a_skill(tmp_path: Path) -> None:
    root = put_skill(tmp_path, "git-workflow")
    async with served(Skills(root)) as (client, ours):
        assert list(await entries(client)) == [URI]
        assert await (await ours.load(URI)).read("references/FORMS.md") == b"# Forms\n"


async def test_nested_skills_are_skills_and_files_of_the_one_around_them(tmp_path: Path) -> None:
    put_skill(tmp_path, "outer")
    put_skill(tmp_path, "outer/more/inner")
    write(tmp_path, "outer/templates/SKILL.md", "an example of a SKILL.md, without frontmatter")
    async with served(Skills(tmp_path)) as (client, _):
        found = await entries(client)
        assert list(found) == ["skill://outer/SKILL.md", "skill://outer/more/inner/SKILL.md"]
        outer, inner = ({r["uri"] for r in found[uri]["resources"]} for uri in found)
        assert inner < outer
        assert outer - inner == {
            "skill://outer/SKILL.md",
            "skill://outer/references/FORMS.md",
            "skill://outer/templates/SKILL.md",
        }
        text = (await client.read_resource("skill://outer/templates/SKILL.md")).text
        assert text.startswith("an example")


@pytest.mark.parametrize(
    "name",
    [
        "a b.md",
        "a%20b.md",
        "é.md",
        "e\u0301.md",
        "日本.md",
        "😀.md",
        "a?b#c.md",
        "a:b@c.md",
        "a[b]{c}.md",
        "a\\b.md",
        "'\"<>^`|.md",
        "-",
        "~",
        "CON",
        "a..b",
        "SKILL.MD",
        "{+path}",
        "x" * 200,
    ],
)
async def test_a_file_of_any_name(tmp_path: Path, name: str) -> None:
    put_skill(tmp_path, "git-workflow")
    write(tmp_path, f"git-workflow/odd/{name}", name)
    async with served(Skills(tmp_path)) as (client, ours):
        skill = await ours.load(URI)
        assert skill.entry.files is not None
        [uri] = [uri for uri in skill.entry.files if "/odd/" in uri]
        assert await skill.read(uri) == name.encode()
        assert await skill.read(f"odd/{name}") == name.encode()
        [shown] = await ours.read_directory("skill://git-workflow/odd")
        assert (shown["uri"], shown["name"]) == (uri, name)
        with pytest.raises(ResourceNotFound):
            await client.read_resource(uri + "x")


async def test_what_is_in_a_file_travels_as_it_is(tmp_path: Path) -> None:
    put_skill(tmp_path, "git-workflow")
    contents = {
        "bom.md": "\ufeffx".encode(),
        "crlf.txt": b"a\r\nb\r\n",
        "empty.md": b"",
        "latin.txt": b"\xe9",
        "nul": b"\0\x01",
        "picture.png": b"\x89PNG\r\n\x1a\n",
        "ascii.png": b"no picture",
        "script.sh": b"#!/bin/sh\n",
    }
    for name, content in contents.items():
        write(tmp_path, f"git-workflow/{name}", content)
    async with served(Skills(tmp_path)) as (client, ours):
        skill = await ours.load(URI)
        for name, content in contents.items():
            assert await skill.read(name) == content
        read = await client.request("resources/read", {"uri": "skill://git-workflow/latin.txt"})
        [found] = read["contents"]
        assert base64.b64decode(found["blob"]) == b"\xe9"
        types = {
            resource["name"]: resource.get("mimeType")
            for resource in await ours.read_directory(skill.entry.root)
        }
        assert types == {
            "git-workflow": "text/markdown",
            "ascii.png": "image/png",
            "bom.md": "text/markdown",
            "crlf.txt": "text/plain",
            "empty.md": "text/markdown",
            "latin.txt": "text/plain",
            "nul": "text/plain",
            "picture.png": "image/png",
            "references": "inode/directory",
            "script.sh": "text/x-shellscript",
        }


async def test_directories(tmp_path: Path) -> None:
    put_skill(tmp_path, "acme/refunds")
    (tmp_path / "acme/refunds/empty").mkdir()
    (tmp_path / "elsewhere").mkdir()
    async with served(Skills(tmp_path, page_size=1)) as (client, ours):

        async def names(uri: str) -> list[str]:
            return [resource["uri"] for resource in await ours.read_directory(uri)]

        assert await names("skill://acme") == ["skill://acme/refunds"]
        assert await names("skill://acme/refunds") == [
            "skill://acme/refunds/SKILL.md",
            "skill://acme/refunds/empty",
            "skill://acme/refunds/references",
        ]
        assert await names("skill://acme/refunds/empty") == []
        for uri in [
            "skill://acme/refunds/",
            "skill://acme/refunds/SKILL.md",
            "skill://acme/nothing",
            "skill://elsewhere",
            "skill://",
            "file:///etc",
            "skill://%ff",
            "",
            7,
            None,
        ]:
            with pytest.raises(McpError, match="not a directory") as caught:
                await client.request("resources/directory/read", {"uri": uri})
            assert caught.value.code == -32602


@pytest.mark.parametrize(
    "uri", ["skill://git-workflow", "skill://x/SKILL.md", FORMS, "", 7, None, [URI]]
)
async def test_what_is_no_skill(tmp_path: Path, uri: Any) -> None:
    put_skill(tmp_path, "git-workflow")
    async with served(Skills(tmp_path)) as (client, _):
        with pytest.raises(McpError, match="No skill is served") as caught:
            await client.request("skills/get", {"uri": uri})
        assert caught.value.code == -32602


@pytest.mark.parametrize(
    "path",
    [
        "../secret",
        "..%2Fsecret",
        "%2E%2E/secret",
        "git-workflow/../../secret",
        "/etc/passwd",
        "git-workflow/.hidden",
        "git-workflow",
    ],
)
async def test_nothing_else_is_read(tmp_path: Path, path: str) -> None:
    root = tmp_path / "skills"
    put_skill(root, "git-workflow")
    write(root, "git-workflow/.hidden", "x")
    write(tmp_path, "secret", "x")
    async with served(Skills(root)) as (client, _):
        with pytest.raises(McpError) as caught:
            await client.request("resources/read", {"uri": f"skill://{path}"})
        assert caught.value.code == -32602


@pytest.mark.parametrize("revision", [LEGACY[-1], MODERN[-1]])
async def test_what_travels(tmp_path: Path, revision: str) -> None:
    """Clients need not declare the extension. The official schemas judge the rest."""
    put_skill(tmp_path, "git-workflow")
    registry = Registry(
        "skilled", extensions=[Skills(tmp_path, cache_ttl=5, cache_scope="private")]
    )
    async with raw(registry, revision, {}) as client:
        client.added = ("skills/list", "skills/get")
        listed = (await client.request("skills/list"))["result"]
        assert [entry["uri"] for entry in listed["skills"]] == [URI]
        assert (listed["ttlMs"], listed["cacheScope"]) == (5000, "private")
        if revision in MODERN:
            assert listed["resultType"] == "complete"
        got = (await client.request("skills/get", {"uri": URI}))["result"]
        assert got["skill"] == listed["skills"][0]
        read = (await client.request("resources/read", {"uri": FORMS}))["result"]
        assert read["contents"][0]["text"] == "# Forms\n"


async def test_pages(tmp_path: Path) -> None:
    for number in range(7):
        put_skill(tmp_path, f"skill-{number}")
    async with served(Skills(tmp_path, page_size=3)) as (client, ours):
        page = await client.request("skills/list")
        assert len(page["skills"]) == 3
        assert [skill.name for skill in await ours.list()] == [f"skill-{n}" for n in range(7)]
        for cursor in ["nonsense!", "é", 5, True, ["x"], {}, "/w=="]:
            with pytest.raises(McpError, match="Invalid cursor"):
                await client.request("skills/list", {"cursor": cursor})


# -- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "must begin with YAML"),
        ("---\nname: git-workflow\n---\n", "'description' must be a text of 1 to 1024"),
        ("---\ndescription: x\n---\n", "'name' must be a text of 1 to 64"),
        (skill_md("git-workflow", description="''"), "'description' must be"),
        (skill_md("git-workflow", description="' '"), "'description' must be"),
        (skill_md("git-workflow", description="x" * 1025), "'description' must be"),
        (skill_md("git-workflow", description="[x]"), "'description' must be"),
        (skill_md("git-workflow", "compatibility: 5\n"), "'compatibility' must be"),
        (skill_md("git-workflow", "metadata: 5\n"), "'metadata' must be a mapping"),
        (skill_md("git-workflow", "metadata: {io.modelcontextprotocol/x: 1}\n"), "is reserved"),
        (skill_md("other"), "must be that of its directory, 'git-workflow'"),
        (skill_md("git-workflow", "x: .inf\n"), "in quotes"),
        (b"---\nname: \xff\n---\n", "not UTF-8"),
    ],
)
def test_a_skill_that_is_none(tmp_path: Path, text: str | bytes, why: str) -> None:
    write(tmp_path, "git-workflow/SKILL.md", text)
    with pytest.raises(SchemaError, match=f"^Skills: git-workflow/SKILL.md: .*{why}"):
        Skills(tmp_path)


@pytest.mark.parametrize(
    "name",
    ["Git", "git_flow", "git--flow", "-git", "git-", "git.flow", "é", "g" * 65, "git flow", "ⅷ"],
)
def test_a_name_that_is_none(tmp_path: Path, name: str) -> None:
    write(tmp_path, f"{name}/SKILL.md", skill_md(name))
    with pytest.raises(SchemaError, match=r"'?name'? .*must"):
        Skills(tmp_path)


@pytest.mark.parametrize("name", ["g" * 64, "a1", "a-b-c", "0-9"])
def test_a_name_that_is_one(tmp_path: Path, name: str) -> None:
    write(tmp_path, f"{name}/SKILL.md", skill_md(name))
    Skills(tmp_path)


@pytest.mark.parametrize("where", ["inside", "outside", "directory", "skill", "SKILL.md"])
def test_links_are_refused(tmp_path: Path, where: str) -> None:
    root = tmp_path / "skills"
    put_skill(root, "git-workflow")
    put_skill(tmp_path, "other")
    link, target = {
        "inside": ("git-workflow/link.md", "references/FORMS.md"),
        "outside": ("git-workflow/link.md", "/etc/passwd"),
        "directory": ("git-workflow/link", "../../other"),
        "skill": ("other", "../other"),
        "SKILL.md": ("third/SKILL.md", "../git-workflow/SKILL.md"),
    }[where]
    (root / link).parent.mkdir(exist_ok=True)
    (root / link).symlink_to(target)
    with pytest.raises(SchemaError, match=rf"{link}: links are not followed"):
        Skills(root)


def test_a_root_may_be_a_link(tmp_path: Path) -> None:
    put_skill(tmp_path / "real", "git-workflow")
    (tmp_path / "link").symlink_to("real")
    Skills(tmp_path / "link")


def test_what_is_no_file(tmp_path: Path) -> None:
    put_skill(tmp_path, "git-workflow")
    os.mkfifo(tmp_path / "git-workflow/pipe")
    with pytest.raises(SchemaError, match="pipe: it is neither a file nor a directory"):
        Skills(tmp_path)


@pytest.mark.parametrize("name", [b"a\nb", b"a\x7fb", b"a\xffb", "a\x85b".encode()])
def test_names_that_cannot_be_served(tmp_path: Path, name: bytes) -> None:
    put_skill(tmp_path, "git-workflow")
    Path(os.fsdecode(os.fsencode(tmp_path / "git-workflow") + b"/" + name)).write_text("x")
    with pytest.raises(SchemaError, match="rename it"):
        Skills(tmp_path)


def test_an_address_that_is_too_long(tmp_path: Path) -> None:
    deep = "git-workflow/" + "/".join(["ü" * 120] * 14)
    write(tmp_path, "git-workflow/SKILL.md", skill_md("git-workflow"))
    (tmp_path / deep).mkdir(parents=True)
    with pytest.raises(SchemaError, match="shorten its path"):
        Skills(tmp_path)


def test_directories_that_are_too_deep(tmp_path: Path) -> None:
    put_skill(tmp_path, "git-workflow")
    write(tmp_path, f"git-workflow/{'d/' * 40}x", "x")
    with pytest.raises(SchemaError, match="more than 32 directories deep"):
        Skills(tmp_path)


@pytest.mark.parametrize("source", [None, 5, [], Skill, b"skills"])
def test_what_is_no_source(source: Any) -> None:
    with pytest.raises(SchemaError, match="come from a directory or a Skill"):
        Skills(source)


def test_uris_have_an_end() -> None:
    """To take 10 MB of percent-encoding apart holds up everything for 0.7 s."""
    longest = "skill://" + "a" * (LONGEST_URI - len("skill://"))
    assert path_of(longest) == longest.removeprefix("skill://")
    assert path_of(f"{longest}a") is None


def test_no_directory(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="there is no directory"):
        Skills(tmp_path / "nowhere")


def test_all_that_is_wrong_is_told_up_to_a_point(tmp_path: Path) -> None:
    for number in range(9):
        write(tmp_path, f"skill-{number}/SKILL.md", "")
    with pytest.raises(SchemaError, match=r"(skill-\d/.*){5}and 4 more$"):
        Skills(tmp_path)


async def test_the_most_files_and_bytes(tmp_path: Path) -> None:
    root = put_skill(tmp_path, "git-workflow")
    for number in range(MOST_FILES - 2):
        write(root, f"many/{number}", "")
    used = sum(path.stat().st_size for path in root.rglob("*") if path.is_file())
    write(root, "many/0", b"x" * (MOST_BYTES - used))
    async with served(Skills(tmp_path)) as (_, ours):
        [entry] = await ours.list()
        assert entry.problem is None
        assert entry.files is not None
        assert len(entry.files) == MOST_FILES
    write(root, "many/1", b"x")
    with pytest.raises(SchemaError, match=r"^Skills: git-workflow: .* more than 16 MiB; split"):
        Skills(tmp_path)
    write(root, "many/1", b"")
    write(root, "one-more", b"")
    with pytest.raises(SchemaError, match=r"^Skills: git-workflow: .* more than 512 files; split"):
        Skills(tmp_path)


def test_a_skill_md_of_50_mb_is_not_read(tmp_path: Path) -> None:
    with write(tmp_path, "git-workflow/SKILL.md", "---\n").open("r+b") as file:
        file.truncate(50_000_000)
    with pytest.raises(SchemaError, match="more than 16 MiB"):
        Skills(tmp_path)


# -- skills of code -------------------------------------------------------------------------------


async def test_a_skill_of_code() -> None:
    skill = Skill("acme/refunds", {"SKILL.md": skill_md("refunds"), "x/y.bin": b"\xff"})
    async with served(Skills(skill)) as (_, ours):
        loaded = await ours.load("skill://acme/refunds/SKILL.md")
        assert await loaded.read("x/y.bin") == b"\xff"
        assert loaded.text == skill_md("refunds")


@pytest.mark.parametrize(
    ("path", "files", "why"),
    [
        ("x", {}, "x: a skill needs a SKILL.md"),
        ("x", {"SKILL.md": skill_md("y")}, "must be that of its directory"),
        ("x", {"SKILL.md": skill_md("x"), "../y": ""}, "a path has names"),
        ("x", {"SKILL.md": skill_md("x"), "/y": ""}, "a path has names"),
        ("x", {"SKILL.md": skill_md("x"), "": ""}, "a path has names"),
        ("/x", {"SKILL.md": skill_md("x")}, "a path has names"),
        ("x", {"SKILL.md": skill_md("x"), "a\nb": ""}, "control characters"),
        ("x", {"SKILL.md": skill_md("x"), "y": 5}, "x/y: a file is text or bytes, not int"),
        ("x", {"SKILL.md": skill_md("x"), "y": "\ud800"}, "x/y: .* surrogates not allowed"),
        ("x", {"SKILL.md": skill_md("x"), "y": b"x" * MOST_BYTES}, "more than 16 MiB"),
        (
            "x",
            {"SKILL.md": skill_md("x"), **dict.fromkeys(map(str, range(512)), "")},
            "more than 512",
        ),
    ],
)
def test_a_skill_of_code_that_is_none(path: str, files: dict[str, Any], why: str) -> None:
    with pytest.raises(SchemaError, match=why):
        Skills(Skill(path, files))


async def nothing(path: str) -> None:
    return None


def test_two_of_the_same_path(tmp_path: Path) -> None:
    put_skill(tmp_path, "x")
    with pytest.raises(SchemaError, match="two of that path"):
        Skills(tmp_path, Skill("x", {"SKILL.md": skill_md("x")}))
    daily = DynamicSkill("daily", "Every day", nothing)
    for other in (daily, DynamicSkill("daily/inner", "Every day", nothing)):
        with pytest.raises(SchemaError, match="two of that path"):
            Skills(daily, other)
    with pytest.raises(SchemaError, match="shares a directory"):
        Skills(tmp_path, DynamicSkill("x/inner", "Every day", nothing))


async def test_a_dynamic_skill() -> None:
    files: dict[str, Any] = {"SKILL.md": "Read today.csv.", "data/today.csv": "1", "raw": b"\xff"}

    async def read(path: str) -> Any:
        return files.get(path)

    async def names() -> list[str]:
        return ["data/today.csv", "raw"]

    skill = DynamicSkill("reports/daily", 'To"day\u2028', read, names, {"license": "MIT"})
    async with served(Skills(skill), allow_dynamic=True) as (client, ours):
        [entry] = (await entries(client)).values()
        assert entry["resources"] == "dynamic"
        loaded = await ours.load(entry["uri"])
        assert loaded.text.endswith("---\nRead today.csv.")
        assert (loaded.entry.fingerprint, loaded.entry.files) == (None, None)
        assert await loaded.read("data/today.csv") == b"1"
        files["data/today.csv"] = "2"
        assert await loaded.read("data/today.csv") == b"2"
        assert await loaded.read("raw") == b"\xff"
        with pytest.raises(McpError, match="not found"):
            await loaded.read("nothing")
        found = await ours.read_directory("skill://reports/daily")
        assert [resource["uri"].rpartition("/")[2] for resource in found] == [
            "SKILL.md",
            "data",
            "raw",
        ]
        assert len(await ours.read_directory("skill://reports/daily/data")) == 1
        assert len(await ours.read_directory("skill://reports")) == 1
        with pytest.raises(McpError, match="not a directory"):
            await ours.read_directory("skill://reports/daily/raw")


@pytest.mark.parametrize(
    "name", ["../x", "..%2Fx", "%2e%2e/x", "a/../../x", "./x", "a//x", "%0a", "x/"]
)
async def test_a_dynamic_skill_is_asked_for_nothing_outside_of_it(name: str) -> None:
    asked: list[str] = []

    async def read(path: str) -> str:
        asked.append(path)
        return "x"

    async with served(Skills(DynamicSkill("daily", "Every day", read))) as (client, _):
        with pytest.raises(McpError, match="not found") as caught:
            await client.request("resources/read", {"uri": f"skill://daily/{name}"})
        assert caught.value.code == -32602
        assert asked == []


@pytest.mark.parametrize(
    ("path", "more", "why"),
    [
        ("Daily", {}, "lowercase"),
        ("", {}, "a path has names"),
        ("x", {"a": float("nan")}, "JSON"),
        ("x", {"a": {1}}, "JSON"),
    ],
)
def test_a_dynamic_skill_that_is_none(path: str, more: Any, why: str) -> None:
    with pytest.raises(SchemaError, match=why):
        Skills(DynamicSkill(path, "Every day", nothing, more=more))


# -- changes --------------------------------------------------------------------------------------


async def test_changes_are_seen(tmp_path: Path) -> None:
    put_skill(tmp_path, "git-workflow")
    async with served(Skills(tmp_path, check_every=0)) as (client, ours):
        before = await ours.get(URI)
        write(tmp_path, "git-workflow/references/FORMS.md", "# Other forms\n")
        after = await ours.get(URI)
        assert after.fingerprint != before.fingerprint
        assert await (await ours.load(after)).read("references/FORMS.md") == b"# Other forms\n"
        put_skill(tmp_path, "acme/refunds")
        write(tmp_path, "git-workflow/new.md", "new")
        assert len(await entries(client)) == 2
        assert len(await client.list_resources()) == 2
        assert (await client.read_resource("skill://git-workflow/new.md")).text == "new"
        (tmp_path / "git-workflow/new.md").unlink()
        with pytest.raises(ResourceNotFound):
            await client.read_resource("skill://git-workflow/new.md")


async def test_a_change_that_does_not_show_is_found_when_the_file_is_read(tmp_path: Path) -> None:
    """Same size, same times: an entry never goes with bytes of another file."""
    put_skill(tmp_path, "git-workflow")
    forms = tmp_path / "git-workflow/references/FORMS.md"
    async with served(Skills(tmp_path, check_every=1000)) as (client, ours):
        before = await ours.load(URI)
        forms.write_bytes(b"# SMROF\n")
        with pytest.raises(Exception, match="not the file that its entry means"):
            await before.read("references/FORMS.md")
        after = await ours.load(URI)  # that the file was read has made the entry a new one
        assert after.entry.fingerprint != before.entry.fingerprint
        assert await after.read("references/FORMS.md") == b"# SMROF\n"
        forms.unlink()
        with pytest.raises(ResourceNotFound):
            await client.read_resource(FORMS)
        assert (await ours.get(URI)).files is not None
        assert FORMS not in ((await ours.get(URI)).files or ())


async def test_a_file_that_never_stands_still(tmp_path: Path, monkeypatch: Any) -> None:
    put_skill(tmp_path, "git-workflow")
    skills = Skills(tmp_path, check_every=1000)
    forms = tmp_path / "git-workflow/references/FORMS.md"
    scan = Directory.scan

    def scan_and_change(self: Directory) -> Any:
        found = scan(self)
        forms.write_bytes(forms.read_bytes() + b"x")
        return found

    monkeypatch.setattr(Directory, "scan", scan_and_change)
    async with served(skills) as (client, _):
        forms.write_bytes(b"x")
        with pytest.raises(McpError, match="is being changed") as caught:
            await client.read_resource(FORMS)
        assert caught.value.code == -32603


async def test_a_skill_that_breaks_is_left_out(tmp_path: Path, caplog: Any) -> None:
    put_skill(tmp_path, "git-workflow")
    put_skill(tmp_path, "other")
    async with served(Skills(tmp_path, check_every=0)) as (client, _):
        with caplog.at_level(logging.WARNING, "trio_mcp.skills"):
            write(tmp_path, "git-workflow/SKILL.md", "half of it")
            for _ in range(3):
                assert list(await entries(client)) == ["skill://other/SKILL.md"]
        assert [record.getMessage()[:46] for record in caplog.records] == [
            "Skill git-workflow/SKILL.md is not served: it "
        ]
        with pytest.raises(ResourceNotFound):
            await client.read_resource(FORMS)
        (tmp_path / "other/link").symlink_to("/etc/passwd")
        assert list(await entries(client)) == []
        (tmp_path / "other/link").unlink()
        put_skill(tmp_path, "git-workflow")
        assert len(await entries(client)) == 2


async def test_clients_are_told(tmp_path: Path) -> None:
    put_skill(tmp_path, "git-workflow")
    async with served(Skills(tmp_path, check_every=0)) as (client, ours):
        async with client.subscribe(lists=["resources"], resources=[FORMS]) as changes:
            write(tmp_path, "git-workflow/references/FORMS.md", "# Other forms\n")
            await ours.list()
            heard = {type(await changes.__anext__()).__name__ for _ in range(2)}
            assert heard == {"ListChanged", "ResourceUpdated"}


async def test_one_looks_for_all_who_ask(tmp_path: Path, monkeypatch: Any) -> None:
    put_skill(tmp_path, "git-workflow")
    skills, scans, scan = Skills(tmp_path, check_every=0), [], Directory.scan
    go_on = threading.Event()

    def count(self: Directory) -> Any:
        scans.append(threading.get_ident())
        go_on.wait(10)
        return scan(self)

    monkeypatch.setattr(Directory, "scan", count)
    async with served(skills) as (client, ours):
        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(ours.list)
            while not scans:
                await trio.sleep(0)  # the loop goes on while a thread looks
            await client.ping()
            go_on.set()
    assert len(scans) <= 2
    assert threading.get_ident() not in scans


# -- quantities -----------------------------------------------------------------------------------


@pytest.mark.long
async def test_100_000_files_are_refused_off_the_loop(tmp_path: Path, monkeypatch: Any) -> None:
    put_skill(tmp_path, "git-workflow")
    put_skill(tmp_path, "other")
    walked: list[int] = []
    real = os.scandir

    def scandir(folder: Any) -> Any:
        walked.append(threading.get_ident())
        return real(folder)

    async with served(Skills(tmp_path, check_every=0)) as (client, _):
        many = tmp_path / "git-workflow/many"
        many.mkdir()
        for number in range(100_000):
            os.mknod(many / str(number))
        monkeypatch.setattr(os, "scandir", scandir)
        assert list(await entries(client)) == ["skill://other/SKILL.md"]
        assert walked
        assert threading.get_ident() not in walked
        monkeypatch.undo()
        with pytest.raises(SchemaError, match="more than 512 files"):
            Skills(tmp_path)
        shutil.rmtree(many)


@pytest.mark.long
async def test_thousands_of_skills() -> None:
    skills = [Skill(f"skill-{n}", {"SKILL.md": skill_md(f"skill-{n}")}) for n in range(3_000)]
    async with served(Skills(*skills, page_size=1000)) as (client, ours):
        listed = await ours.list()
        assert len({resource.uri for resource in listed}) == 3_000
        page = await client.request("skills/list")
        assert len(json.dumps(page)) < 2 * 1024 * 1024


@pytest.mark.long
async def test_entries_that_are_large_make_short_pages() -> None:
    long = "x" * 60_000
    skills = [
        Skill(f"skill-{n}", {"SKILL.md": skill_md(f"skill-{n}", f"x: {long}\n")}) for n in range(60)
    ]
    async with served(Skills(*skills)) as (client, ours):
        assert len((await client.request("skills/list"))["skills"]) < 20
        assert len(await ours.list()) == 60


async def test_a_file_of_10_mib(tmp_path: Path) -> None:
    put_skill(tmp_path, "git-workflow")
    write(tmp_path, "git-workflow/large.md", "é" * (5 * 1024 * 1024))
    ours = SkillsClient("shelf")
    from trio_mcp import Limits, connect

    registry = Registry("skilled", extensions=[Skills(tmp_path)])
    limits = Limits(max_message_bytes=32 * 1024 * 1024)
    async with connect(registry, extensions=[ours], limits=limits):
        skill = await ours.load(URI)
        assert len(await skill.read("large.md")) == 10 * 1024 * 1024


def test_options_of_another_type_are_refused_by_name() -> None:
    async def read(path: str) -> str:
        return path

    wrong: dict[str, Any] = {
        "path": 5,
        "description": None,
        "read": None,
        "list_files": 5,
        "more": 5,
    }
    for name, value in wrong.items():
        with pytest.raises(TypeError, match=f"{name} must be "):
            DynamicSkill(**{"path": "daily", "description": "Daily", "read": read, name: value})
    with pytest.raises(TypeError, match="files must be Mapping, not list"):
        Skill("daily", ["SKILL.md"])  # type: ignore[arg-type]
    for name in ("page_size", "check_every"):
        with pytest.raises(ValueError, match=f"{name} must be at least"):
            Skills(**{name: "5"})  # type: ignore[arg-type]
