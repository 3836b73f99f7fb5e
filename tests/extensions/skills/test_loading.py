"""Loading skills: everything that a server may get wrong, or lie about, is found."""

from itertools import count
from typing import Any

import pytest

from tests.extensions.skills.support import FORMS, URI, Liar, skill_md
from trio_mcp import McpError, Registry, connect
from trio_mcp.errors import (
    ClientError,
    InvalidSkill,
    NotConnected,
    ProtocolError,
    ResponseTooLarge,
    UnverifiedSkill,
)
from trio_mcp.extensions.skills import SkillsClient
from trio_mcp.extensions.skills.format import MOST_BYTES, digest_of

pytestmark = pytest.mark.requirement("K4")

HEX = "0" * 64


async def test_nothing_is_read_ahead_of_need_and_nothing_twice() -> None:
    liar = Liar()
    async with liar.connected() as ours:
        [entry] = await ours.list()
        assert (entry.name, entry.description, entry.origin) == (
            "git-workflow",
            "How to do it",
            "liar",
        )
        assert await ours.get(URI) == entry
        assert liar.reads == []
        skill = await ours.load(entry)
        assert liar.reads == ["git-workflow/SKILL.md"]
        assert skill.text == skill_md("git-workflow")
        for reference in ("references/FORMS.md", "./references/../references/FORMS.md", FORMS):
            assert await skill.read(reference) == b"# Forms\n"
        await ours.load(URI)
        assert liar.reads == ["git-workflow/SKILL.md", "git-workflow/references/FORMS.md"]


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        ("uri", "skill://git-workflow", "ends with /SKILL.md"),
        ("uri", "skill://git-workflow/skill.md", "ends with /SKILL.md"),
        ("uri", "skill://other/SKILL.md", "must be that of its directory"),
        ("frontmatter", None, "no frontmatter"),
        ("frontmatter", [], "no frontmatter"),
        ("frontmatter", {}, "'name' must be"),
        ("frontmatter", {"name": "git-workflow"}, "'description' must be"),
        ("frontmatter", {"name": "git-workflow", "description": 5}, "'description' must be"),
        ("frontmatter", {"name": "../x", "description": "x"}, "lowercase"),
        ("resources", None, "does not say what files"),
        ("resources", "Dynamic", "does not say what files"),
        ("resources", {}, "does not say what files"),
        ("resources", 7, "does not say what files"),
        ("resources", [], "does not have its SKILL.md"),
        ("resources", [None], "needs a URI"),
        ("resources", [{"uri": URI}], "needs a URI"),
        ("resources", [{"uri": URI, "digest": f"sha256:{HEX}"}], "needs a URI"),
        ("resources", [{"uri": URI, "digest": f"sha256:{HEX}", "size": True}], "needs a URI"),
        ("resources", [{"uri": URI, "digest": f"sha256:{HEX}", "size": -1}], "needs a URI"),
        ("resources", [{"uri": URI, "digest": f"sha256:{HEX}", "size": 1.5}], "needs a URI"),
        ("resources", [{"uri": URI, "digest": f"sha256:{HEX}", "size": "1"}], "needs a URI"),
        ("resources", [{"uri": URI, "digest": f"sha1:{HEX}", "size": 1}], "needs a URI"),
        ("resources", [{"uri": URI, "digest": "sha256:" + "A" * 64, "size": 1}], "needs a URI"),
        ("resources", [{"uri": URI, "digest": f"sha256:{HEX}\n", "size": 1}], "needs a URI"),
        ("resources", [{"uri": URI, "digest": 5, "size": 1}], "needs a URI"),
        ("resources", [{"uri": URI, "digest": f"sha256:{HEX}", "size": 1}] * 2, "twice"),
        ("resources", [{"uri": URI, "digest": f"sha256:{HEX}", "size": MOST_BYTES + 1}], "16 MiB"),
        ("resources", [{"uri": URI, "digest": f"sha256:{HEX}", "size": 10**30}], "16 MiB"),
        (
            "resources",
            [{"uri": f"{URI}{n or ''}", "digest": f"sha256:{HEX}", "size": 1} for n in range(513)],
            "513 files, more than 512",
        ),
        ("uri", f"skill://{'a' * 8192}/SKILL.md", "its URI has more than 8192"),
        (
            "resources",
            [{"uri": f"{URI}/{'%2e/' * 3000}", "digest": f"sha256:{HEX}", "size": 1}],
            "URI of a file has more than 8192",
        ),
        *(
            (
                "resources",
                [{"uri": u, "digest": f"sha256:{HEX}", "size": 1} for u in (URI, uri)],
                "not in its directory",
            )
            for uri in (
                "skill://other/x",
                "skill://git-workflow",
                "skill://git-workflow/",
                "skill://git-workflow/../other/x",
                "skill://git-workflow/%2e%2e/other/x",
                "skill://git-workflow/a%2F..%2F..%2Fx",
                "skill://git-workflow/a//b",
                "skill://git-workflow-2/x",
                "file:///etc/passwd",
                "",
            )
        ),
    ],
)
async def test_an_entry_that_is_none(field: str, value: Any, why: str) -> None:
    liar = Liar()
    liar.entry[field] = value
    async with liar.connected() as ours:
        [entry] = await ours.list()
        assert entry.problem is not None
        with pytest.raises(InvalidSkill, match=why) as caught:
            await ours.load(entry)
        assert (caught.value.origin, caught.value.uri) == ("liar", liar.entry["uri"])
        assert liar.reads == []


@pytest.mark.parametrize("entry", [None, 5, [], {}, {"uri": 5}, {"uri": None}])
async def test_what_is_no_entry_at_all(entry: Any) -> None:
    liar = Liar()
    liar.entry = entry
    async with liar.connected() as ours:
        assert await ours.list() == []
        with pytest.raises(ProtocolError, match="not the entry of"):
            await ours.load(URI)


async def test_the_entry_of_another_skill() -> None:
    liar = Liar()
    liar.entry["uri"] = "skill://other/SKILL.md"
    async with liar.connected() as ours:
        with pytest.raises(ProtocolError, match="not the entry of"):
            await ours.get(URI)


@pytest.mark.parametrize("uri", [URI, FORMS])
@pytest.mark.parametrize(
    ("lie", "why"),
    [
        (lambda text: text + "more", "bytes, and its entry says"),
        (lambda text: text[:-1], "bytes, and its entry says"),
        (lambda text: "", "bytes, and its entry says"),
        (lambda text: text.replace("o", "0"), "not the file that its entry means"),
        (lambda text: text.encode()[::-1], "not the file that its entry means"),
        (lambda text: text.encode("utf-16"), "bytes, and its entry says"),
    ],
)
async def test_a_file_that_is_another(uri: str, lie: Any, why: str) -> None:
    liar = Liar()
    async with liar.connected() as ours:
        loaded = await ours.load(URI) if uri == FORMS else None
        liar.texts[uri] = lie(liar.texts[uri])
        with pytest.raises(UnverifiedSkill, match=why) as caught:
            await (ours.load(URI) if loaded is None else loaded.read(uri))
        assert caught.value.uri == uri


@pytest.mark.parametrize(
    ("written", "why"),
    [
        (skill_md("git-workflow", description="Steal credentials"), "'description'"),
        (skill_md("other"), "'name'"),
        (skill_md("git-workflow", "allowed-tools: Bash\n"), "'allowed-tools'"),
        ("no frontmatter", "must begin with YAML"),
        ("---\n- a\n---\n", "must be a mapping"),
        ("---\na: &a [*a]\n---\n", "too large"),
        (skill_md("git-workflow", "x: !!python/name:os.system\n"), "in quotes"),
    ],
)
async def test_frontmatter_that_is_another(written: str, why: str) -> None:
    liar = Liar()
    liar.says(URI, written)
    async with liar.connected() as ours:
        with pytest.raises(UnverifiedSkill, match=why):
            await ours.load(URI)


@pytest.mark.parametrize(
    ("yaml", "value", "fits"),
    [
        ("1", 1, True),
        ("1", True, False),
        ("true", 1, False),
        ("1.0", 1, True),
        ("~", None, True),
        ("'1'", 1, False),
        ("[1]", [1, 1], False),
    ],
)
async def test_frontmatter_is_compared_field_by_field(yaml: str, value: Any, fits: bool) -> None:
    liar = Liar()
    liar.says(URI, skill_md("git-workflow", f"x: {yaml}\n"))
    liar.entry["frontmatter"]["x"] = value
    async with liar.connected() as ours:
        if fits:
            assert (await ours.load(URI)).entry.frontmatter["x"] == value
        else:
            with pytest.raises(UnverifiedSkill, match="'x'"):
                await ours.load(URI)


async def test_a_field_that_is_null_is_not_one_that_is_missing() -> None:
    liar = Liar()
    liar.entry["frontmatter"]["x"] = None
    async with liar.connected() as ours:
        with pytest.raises(UnverifiedSkill, match="'x'"):
            await ours.load(URI)


@pytest.mark.parametrize(
    "contents",
    [
        None,
        [],
        {},
        [5],
        [{"uri": URI}],
        [{"uri": FORMS, "text": "x"}],
        [{"uri": URI, "text": 5}],
        [{"uri": URI, "blob": "%%%"}],
        [{"uri": URI, "blob": "é"}],
    ],
)
async def test_contents_that_are_none(contents: Any) -> None:
    liar = Liar()
    liar.wraps = ("resources/read",)

    async def around(request: Any, proceed: Any) -> dict[str, Any]:
        return {"contents": contents}

    liar.around = around  # type: ignore[method-assign]
    async with liar.connected() as ours:
        with pytest.raises(UnverifiedSkill, match=r"something else|base64|ascii|ASCII"):
            await ours.load(URI)


@pytest.mark.parametrize(
    "reference",
    [
        "nothing",
        "",
        ".",
        "..",
        "../other/x",
        "/etc/passwd",
        "file:///etc/passwd",
        "skill://other/SKILL.md",
        "skill://git-workflow/../x",
        "skill://git-workflow/%2e%2e/x",
        "skill://git-workflow",
    ],
)
@pytest.mark.parametrize("dynamic", [False, True])
async def test_files_that_are_not_in_the_entry_that_is_held(reference: str, dynamic: bool) -> None:
    liar = Liar()
    if dynamic:
        if reference == "nothing":
            return
        liar.entry["resources"] = "dynamic"
    async with liar.connected(allow_dynamic=True) as ours:
        loaded = await ours.load(URI)
        liar.entry["resources"] = [liar.resource(uri, text) for uri, text in liar.texts.items()]
        liar.texts["skill://git-workflow/nothing"] = "x"
        with pytest.raises(UnverifiedSkill, match="no such file"):
            await loaded.read(reference)
        assert len(liar.reads) == 1


async def test_a_dynamic_skill_is_loaded_only_if_it_may() -> None:
    liar = Liar()
    liar.entry["resources"] = "dynamic"
    async with liar.connected() as ours:
        with pytest.raises(InvalidSkill, match="cannot be verified"):
            await ours.load(URI)
        assert liar.reads == []


async def test_a_dynamic_skill_has_a_most() -> None:
    liar = Liar()
    liar.entry["resources"] = "dynamic"
    liar.texts[FORMS] = "x" * (6 * 1024 * 1024)
    async with liar.connected(allow_dynamic=True) as ours:
        loaded = await ours.load(URI)
        await loaded.read(FORMS)
        await loaded.read(FORMS)
        with pytest.raises(InvalidSkill, match="16 MiB"):
            await loaded.read(FORMS)


async def test_the_same_skill_of_another_server_is_another() -> None:
    one, other = Liar(), Liar()
    async with one.connected() as ours, other.connected() as theirs:
        other_entry = await theirs.get(URI)
        assert (await ours.get(URI)) == other_entry  # both say that they are "liar"
    async with one.connected() as ours:
        mine = SkillsClient("mine")
        async with connect(Registry("mine", extensions=[Liar()]), extensions=[mine]):
            with pytest.raises(InvalidSkill, match="not asked of mine"):
                await mine.load(await ours.get(URI))
            assert (await mine.get(URI)).fingerprint != (await ours.get(URI)).fingerprint


async def test_the_fingerprint_stands_for_all_files() -> None:
    liar = Liar()
    async with liar.connected() as ours:
        first = await ours.get(URI)
        liar.entry["resources"].reverse()
        assert (await ours.get(URI)).fingerprint == first.fingerprint
        liar.says(FORMS, "# Others\n")
        second = await ours.get(URI)
        liar.entry["resources"] = [file for file in liar.entry["resources"] if file["uri"] == URI]
        third = await ours.get(URI)
        assert len({first.fingerprint, second.fingerprint, third.fingerprint}) == 3


async def test_the_cache_has_a_most() -> None:
    liar = Liar()
    async with liar.connected(cache_bytes=10) as ours:
        loaded = await ours.load(URI)
        await loaded.read(FORMS)
        await ours.load(URI)
        await loaded.read(FORMS)
        assert [uri.rpartition("/")[2] for uri in liar.reads] == [
            "SKILL.md",
            "FORMS.md",
            "SKILL.md",
        ]


async def test_a_cached_file_must_have_the_size_that_the_entry_says() -> None:
    liar = Liar()
    async with liar.connected() as ours:
        await (await ours.load(URI)).read(FORMS)
        for file in liar.entry["resources"]:
            file["size"] += 1
        with pytest.raises(UnverifiedSkill, match="bytes, and its entry says"):
            await ours.load(URI)


async def test_directories_are_asked_for_only_where_they_are_served() -> None:
    liar = Liar()
    async with liar.connected() as ours:
        with pytest.raises(ClientError, match="does not tell"):
            await ours.read_directory("skill://git-workflow")
    liar.settings = {"directoryRead": True}
    for wrong in ({}, {"resources": None}, {"resources": [5]}, {"resources": {}}):
        liar.directory = wrong
        async with liar.connected() as ours:
            with pytest.raises(ProtocolError, match="has no resources"):
                await ours.read_directory("skill://git-workflow")
    liar.directory = {"resources": [], "nextCursor": "again"}
    async with liar.connected() as ours:
        with pytest.raises(ProtocolError, match="no end"):
            await ours.read_directory("skill://git-workflow")


async def test_a_directory_that_never_ends_is_not_kept_in_memory() -> None:
    liar, pages = Liar(), count()
    liar.settings = {"directoryRead": True}

    async def endless(request: Any) -> dict[str, Any]:
        return {"resources": [{"uri": "x" * 4_000_000}], "nextCursor": str(next(pages))}

    liar.read_directory = endless  # type: ignore[method-assign]
    async with liar.connected() as ours:
        with pytest.raises(ResponseTooLarge, match="all pages together"):
            await ours.read_directory("skill://git-workflow")
    assert next(pages) == 3


async def test_a_server_without_skills() -> None:
    ours = SkillsClient("plain")
    with pytest.raises(NotConnected, match="plain is not connected, or has no skills"):
        await ours.list()
    async with connect(Registry("plain"), extensions=[ours]):
        with pytest.raises(NotConnected):
            await ours.list()
    liar = Liar()
    async with liar.connected() as theirs:
        pass
    with pytest.raises(NotConnected):
        await theirs.list()


async def test_a_skill_that_is_not_there() -> None:
    from trio_mcp.extensions.skills import Skills

    ours = SkillsClient("empty")
    async with connect(Registry("empty", extensions=[Skills()]), extensions=[ours]):
        assert await ours.list() == []
        with pytest.raises(McpError, match="No skill is served"):
            await ours.load(URI)


def test_a_server_needs_a_name() -> None:
    with pytest.raises(ValueError, match="a name of yours"):
        SkillsClient("")


async def test_16_mib_that_are_not_what_was_said() -> None:
    liar = Liar()
    liar.texts[FORMS] = "x" * (9 * 1024 * 1024)
    liar.entry["resources"][1] = {"uri": FORMS, "digest": digest_of(b"y"), "size": 9 * 1024 * 1024}
    async with liar.connected() as ours:
        loaded = await ours.load(URI)
        with pytest.raises(UnverifiedSkill):
            await loaded.read(FORMS)
