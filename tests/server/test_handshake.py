"""Who speaks which revision: `initialize`, `server/discover`, `_meta`, and their mixtures."""

import itertools

import pytest

from tests.support.client import CLIENT_INFO, LEGACY, REVISIONS, modern_meta, serving
from tests.support.tools import (
    each_legacy_revision,
    each_revision,
    echo,
    error_of,
    registry_of,
    text_of,
)
from trio_mcp import Context, Registry

VERSION = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
INFO = "io.modelcontextprotocol/clientInfo"
SERVER_INFO = "io.modelcontextprotocol/serverInfo"


async def revision_of_call(context: Context) -> str:
    return f"{context.revision} {context.client.name if context.client else None}"


def hello(version: str) -> dict:
    return {"protocolVersion": version, "capabilities": {}, "clientInfo": CLIENT_INFO}


def unshaken(registry: Registry, revision: str = "2025-11-25"):
    return serving(registry, revision=revision, shake_hands=False)


@pytest.mark.requirement("A8")
@each_legacy_revision
async def test_initialize_echoes_a_legacy_revision(revision):
    registry = registry_of(
        echo, instructions="Be kind.", title="Test", website_url="https://x.test"
    )
    async with unshaken(registry, revision) as (client, _):
        answer = await client.initialize()
        result = answer["result"]
        assert result["protocolVersion"] == revision
        assert result["capabilities"] == {"tools": {"listChanged": True}, "logging": {}}
        assert result["instructions"] == "Be kind."
        info = {"name": "test", "version": "1.2"}
        if revision >= "2025-06-18":
            info["title"] = "Test"
        if revision >= "2025-11-25":
            info["websiteUrl"] = "https://x.test"
        assert result["serverInfo"] == info


@pytest.mark.requirement("A8")
@pytest.mark.parametrize("version", ["1999-01-01", "2026-07-28", "2099-01-01", "", "2025-11"])
async def test_initialize_answers_an_unknown_revision_with_the_newest_legacy_one(version):
    async with unshaken(registry_of(revision_of_call)) as (client, _):
        answer = await client.request("initialize", hello(version))
        assert answer["result"]["protocolVersion"] == "2025-11-25"
        assert text_of(await client.call("revision_of_call")) == "2025-11-25 test-client"


@pytest.mark.requirement("A8")
async def test_what_is_not_there_is_not_announced():
    async with unshaken(Registry("bare")) as (client, _):
        answer = await client.initialize()
        assert answer["result"] == {
            "protocolVersion": "2025-11-25",
            "serverInfo": {"name": "bare", "version": "0.0.0"},
            "capabilities": {"logging": {}},
        }


@pytest.mark.requirement("A12")
@pytest.mark.parametrize("version", [None, 5, [], {}, True, 2025.5])
async def test_a_version_is_a_string(version):
    async with unshaken(registry_of(echo)) as (client, _):
        code, message = error_of(await client.request("initialize", hello(version)))
        assert code == -32602
        assert '"protocolVersion" must be a string' in message
        assert (await client.initialize())["result"]["protocolVersion"] == "2025-11-25"


@pytest.mark.requirement("A8")
async def test_initialize_does_without_anything():
    async with unshaken(registry_of(revision_of_call)) as (client, _):
        for params in ({}, None):
            answer = await client.request("initialize", params)
            assert answer["result"]["protocolVersion"] == "2025-11-25"
            assert text_of(await client.call("revision_of_call")) == "2025-11-25 None"


async def test_initialize_does_without_capabilities_and_client_info():
    async with unshaken(registry_of(revision_of_call)) as (client, _):
        for junk in (None, 5, "x", []):
            params = {"protocolVersion": "2024-11-05", "capabilities": junk, "clientInfo": junk}
            assert "result" in await client.request("initialize", params)
            assert text_of(await client.call("revision_of_call")) == "2024-11-05 None"


@pytest.mark.requirement("A8")
@pytest.mark.parametrize(
    "more", [{"websiteUrl": "https://x.test/" + "x" * 100_000}, {"x": [{}] * 9999}]
)
async def test_of_a_client_that_says_much_its_name_is_kept(more):
    async def client_of(context: Context) -> str:
        client = context.client
        return f"{client.name} {client.version} {client.website_url}"

    async with unshaken(registry_of(client_of)) as (client, _):
        info = {**CLIENT_INFO, **more}
        await client.request("initialize", {**hello("2025-11-25"), "clientInfo": info})
        name, version = CLIENT_INFO["name"], CLIENT_INFO["version"]
        assert text_of(await client.call("client_of")) == f"{name} {version} None"
        info = {**CLIENT_INFO, "name": "x" * 100_000}
        await client.request("initialize", {**hello("2025-11-25"), "clientInfo": info})
        assert "internal error" in text_of(await client.call("client_of"))


@pytest.mark.requirement("A8")
@pytest.mark.parametrize(
    "declared", [{"experimental": {"x": "x" * 70_000}}, {str(n): {} for n in range(2000)}]
)
async def test_capabilities_that_are_too_large_to_keep_are_refused(declared):
    async with unshaken(registry_of(revision_of_call)) as (client, _):
        wanted = {**hello("2025-11-25"), "capabilities": declared}
        code, message = error_of(await client.request("initialize", wanted))
        assert code == -32602
        assert "the capabilities of the client take more than 65,536 bytes of memory" in message
        assert text_of(await client.call("revision_of_call")) == "2025-11-25 None"


@pytest.mark.requirement("A8")
async def test_a_second_initialize_replaces_the_first():
    async with unshaken(registry_of(revision_of_call)) as (client, _):
        for version in [*LEGACY, *reversed(LEGACY)]:
            await client.request("initialize", hello(version))
            assert text_of(await client.call("revision_of_call")) == f"{version} test-client"


@pytest.mark.requirement("A10")
async def test_without_a_handshake_requests_are_legacy():
    async with unshaken(registry_of(echo, revision_of_call)) as (client, _):
        await client.send_bytes(b'{"jsonrpc":"2.0","id":"1","method":"tools/list","params":null}\n')
        answer = await client.receive()
        assert answer["id"] == "1"
        assert [each["name"] for each in answer["result"]["tools"]] == ["echo", "revision_of_call"]
        assert "resultType" not in answer["result"]
        assert text_of(await client.call("revision_of_call")) == "2025-11-25 None"
        assert (await client.request("ping"))["result"] == {}


# -- the modern revision ----------------------------------------------------------------------


@pytest.mark.requirement("A9")
async def test_discover():
    registry = registry_of(echo, instructions="Be kind.", cache_ttl=1.5, cache_scope="private")
    async with serving(registry, revision="2026-07-28") as (client, _):
        assert (await client.request("server/discover"))["result"] == {
            "supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {"listChanged": True}, "logging": {}},
            "instructions": "Be kind.",
            "ttlMs": 1500,
            "cacheScope": "private",
            "resultType": "complete",
            "_meta": {SERVER_INFO: {"name": "test", "version": "1.2"}},
        }


@pytest.mark.requirement("A9")
async def test_discover_of_a_bare_registry():
    async with serving(Registry("bare"), revision="2026-07-28") as (client, _):
        result = (await client.request("server/discover"))["result"]
        assert result["capabilities"] == {"logging": {}}
        assert "instructions" not in result


@pytest.mark.requirement("A9")
@pytest.mark.parametrize("method", ["server/discover", "tools/list", "tools/call", "nonsense"])
@pytest.mark.parametrize("version", ["2025-11-25", "2099-01-01", "", "x"])
async def test_an_unsupported_version(method, version):
    async with serving(registry_of(echo), revision="2026-07-28") as (client, _):
        answer = await client.request(method, {"_meta": modern_meta(**{VERSION: version})})
        assert answer["error"]["code"] == -32022
        assert answer["error"]["data"] == {"supported": ["2026-07-28"], "requested": version}


@pytest.mark.requirement("A9")
@pytest.mark.parametrize("field", [VERSION, CAPABILITIES])
async def test_a_required_field_of_meta_is_missing(field):
    meta = modern_meta()
    del meta[field]
    async with serving(registry_of(echo), revision="2025-11-25") as (client, _):
        code, message = error_of(await client.request("tools/list", {"_meta": meta}))
        assert code == -32602
        assert message.endswith(f"{field} is missing")


@pytest.mark.requirement("A9", "A12")
@pytest.mark.parametrize(
    ("field", "value", "wanted"),
    [(VERSION, value, "a string") for value in (None, 5, True, [], {})]
    + [(CAPABILITIES, value, "an object") for value in (None, 5, True, [], "x")]
    + [(INFO, value, "an object") for value in (5, True, [], "x")],
)
async def test_a_field_of_meta_has_the_wrong_type(field, value, wanted):
    async with serving(registry_of(echo), revision="2026-07-28") as (client, _):
        meta = modern_meta(**{field: value})
        code, message = error_of(await client.request("tools/list", {"_meta": meta}))
        assert code == -32602
        assert f"{field} must be {wanted}, not " in message


@pytest.mark.requirement("A9")
async def test_client_info_may_be_absent_or_strange():
    async with serving(registry_of(revision_of_call), revision="2026-07-28") as (client, _):
        for info in (None, {}, {"name": 5}, {"title": "x"}):
            answer = await client.request(
                "tools/call", {"name": "revision_of_call", "_meta": modern_meta(**{INFO: info})}
            )
            assert text_of(answer).startswith("2026-07-28 ")


@pytest.mark.requirement("A9")
async def test_discover_without_meta_says_what_is_missing():
    async with unshaken(registry_of(echo)) as (client, _):
        code, message = error_of(await client.request("server/discover"))
        assert code == -32602
        assert VERSION in message
        assert CAPABILITIES in message


@pytest.mark.requirement("A9")
async def test_both_eras_share_a_connection():
    """What one request says of itself changes nothing for the others, in any order."""
    async with unshaken(registry_of(revision_of_call)) as (client, _):
        call = {"name": "revision_of_call"}
        modern = {**call, "_meta": modern_meta()}
        for first, second in itertools.permutations(["2024-11-05", "2025-06-18"]):
            for version in (first, second):
                await client.request("initialize", hello(version))
                for _ in range(2):
                    client.revision = "2026-07-28"
                    answer = await client.request("tools/call", modern)
                    assert text_of(answer) == "2026-07-28 test-client"
                    client.revision = version
                    answer = await client.request("tools/call", call)
                    assert text_of(answer) == f"{version} test-client"
                    assert "resultType" not in answer["result"]


@pytest.mark.requirement("A9", "A12")
@each_revision
async def test_each_era_has_methods_of_its_own(revision):
    async with serving(registry_of(echo), revision=revision) as (client, _):
        legacy = revision in LEGACY
        discovered = await client.request("server/discover")
        assert ("error" in discovered) is legacy
        pinged = await client.request("ping")
        assert ("error" in pinged) is not legacy
        initialized = await client.request("initialize", hello(revision))
        assert ("error" in initialized) is not legacy
        for refused in [] if legacy else [pinged, initialized]:
            code, message = error_of(refused)
            assert code == -32601
            assert "2026-07-28" in message


@pytest.mark.requirement("A9")
async def test_every_modern_result_is_complete_and_signed():
    async with serving(registry_of(echo), revision="2026-07-28") as (client, _):
        for answer in (
            await client.request("tools/list"),
            await client.call("echo", text="x"),
            await client.call("echo", text=5),
        ):
            assert answer["result"]["resultType"] == "complete"
            assert answer["result"]["_meta"][SERVER_INFO] == {"name": "test", "version": "1.2"}


def test_the_revisions_are_five():
    assert sorted(REVISIONS) == REVISIONS
    assert len(REVISIONS) == 5
