"""Pages that a server has: what is checked, what travels, and what others get in place of them."""

from pathlib import Path
from typing import Any

import pytest

from tests.extensions.ways import client_of as client_by
from tests.extensions.ways import each_era, raw
from tests.support.client import LEGACY, MODERN
from tests.support.tools import each_revision, some_revisions
from trio_mcp import Image, McpError, Registry, SchemaError, ToolError, connect
from trio_mcp.extensions.apps import UI, App, Apps, AppsClient, Csp, Page
from trio_mcp.extensions.apps.page import LARGEST, MIME_TYPE, check_html
from trio_mcp.extensions.tasks import Tasks, TasksClient

pytestmark = pytest.mark.requirement("K5")

FACE = "ui://clock/face"
HTML = "<!doctype html><title>Clock</title>"


def make(*pages: Page) -> Registry:
    registry = Registry("clock", extensions=[Apps(*(pages or (Page(FACE, HTML),)))])

    @registry.tool(extensions={UI: App(FACE, text=lambda found: f"It is {found['hour']} o'clock")})
    async def now(hour: int = 12) -> dict[str, int]:
        """Tell the time."""
        if hour > 23:
            raise ToolError("no such hour")
        return {"hour": hour}

    @registry.tool(extensions={UI: App(FACE, visible_to=["app"])})
    async def wind() -> str:
        """Wind the clock."""
        return "wound"

    @registry.tool(extensions={UI: App(visible_to=["model"])})
    async def strike() -> str:
        """Strike the hour."""
        return "bong"

    @registry.tool
    async def plain() -> str:
        """Have nothing to do with pages."""
        return "plain"

    return registry


# -- what travels ---------------------------------------------------------------------------------


@each_era
async def test_a_tool_names_its_page(era: Any) -> None:
    async with connect(make(), era=era, extensions=[AppsClient()]) as client:
        metas = {
            name: tool.details.get("_meta", {}).get("ui") for name, tool in client.tools.items()
        }
        assert metas == {
            "now": {"resourceUri": FACE, "visibility": ["model", "app"]},
            "wind": {"resourceUri": FACE, "visibility": ["app"]},
            "strike": {"visibility": ["model"]},
            "plain": None,
        }


async def test_what_a_page_may_do_is_in_the_list_and_with_the_page() -> None:
    page = Page(
        FACE,
        HTML,
        title="Clock",
        description="The time",
        csp=Csp(connect=["wss://time.example.com:8443"], resources=["https://*.example.com"]),
        permissions=["geolocation", "clipboardWrite"],
        domain="clock.example.net",
        prefers_border=False,
        cache_ttl=60,
    )
    ui = {
        "csp": {
            "connectDomains": ["wss://time.example.com:8443"],
            "resourceDomains": ["https://*.example.com"],
        },
        "permissions": {"geolocation": {}, "clipboardWrite": {}},
        "domain": "clock.example.net",
        "prefersBorder": False,
    }
    async with connect(make(page)) as client:
        [listed] = await client.list_resources()
        assert (listed.uri, listed.name, listed.title) == (FACE, "face", "Clock")
        assert (listed.mime_type, listed.description) == (MIME_TYPE, "The time")
        assert listed.meta == {"ui": ui}
        read = await client.request("resources/read", {"uri": FACE})
        assert read["contents"] == [
            {"uri": FACE, "mimeType": MIME_TYPE, "text": HTML, "_meta": {"ui": ui}}
        ]
        assert read["ttlMs"] == 60_000


async def test_a_page_that_wants_nothing_says_nothing() -> None:
    async with connect(make()) as client:
        [listed] = await client.list_resources()
        assert listed.meta is None
        [content] = (await client.request("resources/read", {"uri": FACE}))["contents"]
        assert "_meta" not in content


@each_revision
async def test_it_is_valid_in_every_revision(revision: str) -> None:
    """The official schemas judge all of it."""
    async with raw(make(), revision, {"extensions": {UI: {"mimeTypes": [MIME_TYPE]}}}) as client:
        client.added = ()
        for method, params in [
            ("tools/list", {}),
            ("resources/list", {}),
            ("resources/read", {"uri": FACE}),
            ("tools/call", {"name": "now", "arguments": {}}),
        ]:
            assert "result" in await client.request(method, params)


@each_era
@pytest.mark.parametrize("way", ["in-process", "stream", "http"])
async def test_by_every_way(way: str, era: Any) -> None:
    apps = AppsClient()
    async with client_by(make(), way, era, extensions=[apps]) as client:
        assert (await apps.read(client, FACE)).html == HTML
        assert await client.call_tool("now", returns=dict[str, int]) == {"hour": 12}
        assert (await client.call_tool("wind")).text == "wound"


# -- in place of a page ---------------------------------------------------------------------------

NOT_SHOWN: list[Any] = [
    {},
    {"extensions": {UI: {}}},
    {"extensions": {UI: {"mimeTypes": []}}},
    {"extensions": {UI: {"mimeTypes": ["text/html"]}}},
    {"extensions": {UI: {"mimeTypes": MIME_TYPE}}},
    {"extensions": {UI: {"mimeTypes": None}}},
    {"extensions": {UI: None}},
    {"extensions": {UI: [MIME_TYPE]}},
    {"extensions": []},
]


@some_revisions
@pytest.mark.parametrize("capabilities", NOT_SHOWN, ids=str)
async def test_clients_that_show_no_pages_get_text(capabilities: Any, revision: str) -> None:
    async with raw(make(), revision, capabilities) as client:
        client.added = ()
        result = (await client.call("now"))["result"]
        assert [block["text"] for block in result["content"]] == ["It is 12 o'clock"]
        assert result.get("structuredContent", {"hour": 12}) == {"hour": 12}
        error = (await client.call("wind"))["error"]
        assert error["code"] == -32602
        assert error["message"] == "Tool wind is for pages, and this client shows none"
        assert (await client.call("strike"))["result"]["content"][0]["text"] == "bong"
        assert (await client.call("plain"))["result"]["content"][0]["text"] == "plain"
        failed = (await client.call("now", hour=24))["result"]
        assert failed["isError"]
        assert failed["content"][0]["text"] == "no such hour"


@each_revision
@pytest.mark.parametrize(
    ("value", "content"),
    [
        ({"a": 1}, [{"type": "text", "text": "made of {'a': 1}"}]),
        ("hello", [{"type": "text", "text": "hello"}]),
        ("[" * 100_000, [{"type": "text", "text": "[" * 100_000}]),
        (None, []),
        (
            Image(data=b"x", format="png"),
            [{"type": "image", "data": "eA==", "mimeType": "image/png"}],
        ),
    ],
    ids=["an object", "a text", "a text like JSON", "nothing", "a picture"],
)
async def test_a_text_is_made_of_structured_content_only(
    value: Any, content: list[Any], revision: str
) -> None:
    registry = Registry("x", extensions=[Apps(Page(FACE, HTML))])

    @registry.tool(extensions={UI: App(FACE, text=lambda found: f"made of {found}")})
    async def give() -> Any:
        return value

    async with raw(registry, revision, {}) as client:
        client.added = ()
        assert (await client.call("give"))["result"]["content"] == content


@pytest.mark.parametrize(
    ("extensions", "text"),
    [([Apps(Page(FACE, HTML)), Tasks()], '{"a":1}'), ([Tasks(), Apps(Page(FACE, HTML))], "a is 1")],
    ids=["before tasks", "after tasks"],
)
async def test_a_call_that_becomes_a_task_is_left_alone(extensions: Any, text: str) -> None:
    """The text is that of its result, which goes through the extensions after that of tasks."""
    registry = Registry("x", extensions=extensions)

    @registry.tool(task=True, extensions={UI: App(FACE, text=lambda found: f"a is {found['a']}")})
    async def give() -> dict[str, int]:
        return {"a": 1}

    created: list[str] = []
    tasks = TasksClient(on_created=lambda id, name: created.append(name))
    async with connect(registry, extensions=[tasks]) as client:
        assert (await client.call_tool("give")).text == text
        assert created == ["give"]


@pytest.mark.parametrize("revision", [LEGACY[-1], MODERN[-1]])
async def test_clients_that_show_pages_get_what_the_tool_returns(revision: str) -> None:
    capabilities = {"extensions": {UI: {"mimeTypes": ["text/x", MIME_TYPE]}}}
    async with raw(make(), revision, capabilities) as client:
        client.added = ()
        result = (await client.call("now"))["result"]
        assert result["content"][0]["text"] == '{"hour":12}'
        assert "result" in await client.call("wind")


# -- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "html",
    [
        HTML,
        "<!DOCTYPE html>",
        "\ufeff<!doctype html>",
        "\n <!-- a -->\n<!-- b --><!DocType HTML\n>",
        HTML + "é" * 1000,
    ],
)
def test_what_is_a_page(html: str) -> None:
    check_html(html)


@pytest.mark.parametrize(
    "html",
    [
        "",
        "<html></html>",
        "<!doctype>",
        "<!doctype htmlx>",
        "<!doctype svg>",
        "<!--<!doctype html>-->",
        "x<!doctype html>",
        "<!-- " * 100_000,
        " " * 1_000_000,
    ],
)
def test_what_is_no_page(html: str) -> None:
    with pytest.raises(SchemaError, match=f"^Page '{FACE}': a page begins with"):
        Apps(Page(FACE, html))


def test_the_largest_page(tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(HTML + "x" * (LARGEST - len(HTML)))
    Apps(Page(FACE, file))
    file.write_text(HTML + "é" * (LARGEST // 2))
    for html in (file, file.read_text()):
        with pytest.raises(SchemaError, match="10 MiB at most"):
            Apps(Page(FACE, html))


@pytest.mark.parametrize("uri", ["", "ui://", "http://x/y", "ui:x", "UI://x", "skill://x"])
def test_uris_that_are_none(uri: str) -> None:
    with pytest.raises(SchemaError, match="begins with ui://"):
        Apps(Page(uri, HTML))


def test_a_uri_that_cannot_be_registered() -> None:
    with pytest.raises(SchemaError, match="not a URI"):
        Registry("x", extensions=[Apps(Page("ui://a b", HTML))])


@pytest.mark.parametrize("page", [None, HTML, Page])
def test_what_is_no_page_at_all(page: Any) -> None:
    with pytest.raises(SchemaError, match="Apps have pages"):
        Apps(page)


def test_two_pages_of_one_uri() -> None:
    with pytest.raises(SchemaError, match="two pages"):
        Apps(Page(FACE, HTML), Page(FACE, HTML))


def test_files_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "latin.html").write_bytes(b"<!doctype html>\xe9")
    for name, why in [("nothing.html", "No such file"), ("latin.html", "utf-8"), ("", "directory")]:
        with pytest.raises(SchemaError, match=why):
            Apps(Page(FACE, tmp_path / name))


@pytest.mark.parametrize(
    "origin",
    [
        "example.com",
        "https://",
        "https://example.com/",
        "https://example.com/path",
        "https://example.com; script-src *",
        "https://example.com 'unsafe-eval'",
        "https://a.com https://b.com",
        "https://*",
        "https://*.*.com",
        "https://a.*.com",
        "https://user@example.com",
        "https://example.com:port",
        "https://-a.com",
        "https://a..b",
        "javascript://example.com",
        "data:",
        "blob:",
        "'self'",
        "'none'",
        "*",
        "",
        "https://example.com\n",
        "https://exämple.com",
        None,
        5,
        ["https://example.com"],
    ],
)
@pytest.mark.parametrize("where", ["connect", "resources", "frames", "base_uris"])
def test_origins_that_are_none(where: str, origin: Any) -> None:
    with pytest.raises(SchemaError, match=f"^Page '{FACE}': .* is not an origin"):
        Apps(Page(FACE, HTML, csp=Csp(**{where: [origin]})))


def test_what_is_no_list() -> None:
    with pytest.raises(SchemaError, match="connect must be a list"):
        Apps(Page(FACE, HTML, csp=Csp(connect="https://example.com")))
    with pytest.raises(SchemaError, match="connect must be a list"):
        Apps(Page(FACE, HTML, csp=Csp(connect=5)))  # type: ignore[arg-type]
    for permissions in (["bluetooth"], "camera", ["camera", "clipboard-write"], 5, [[]]):
        with pytest.raises(SchemaError, match="permissions must be a list of camera"):
            Apps(Page(FACE, HTML, permissions=permissions))


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: Page(5, HTML), "uri must be str, not int"),
        (lambda: Page(FACE, 5), "html must be str or Path, not int"),
        (lambda: Page(FACE, HTML, csp={}), "csp must be Csp, not dict"),
        (lambda: Page(FACE, HTML, domain=10**400), "domain must be str or None, not int"),
        (lambda: Page(FACE, HTML, prefers_border="yes"), "prefers_border must be bool or None"),
        (lambda: App(["x"]), "page must be str or None, not list"),
        (lambda: App(FACE, text="plain"), "text must be a function, not str"),
    ],
)
def test_what_is_of_another_type_is_refused_by_name(make: Any, why: str) -> None:
    with pytest.raises(TypeError, match=why):
        make()


@pytest.mark.parametrize(
    ("app", "why"),
    [
        (App("ui://clock/back"), rf"there is no page 'ui://clock/back', only: {FACE}"),
        (App(FACE, visible_to=[]), "visible_to must be a list"),
        (App(FACE, visible_to="app"), "visible_to must be a list"),
        (App(FACE, visible_to=[[]]), "visible_to must be a list"),  # type: ignore[list-item]
        (App(FACE, visible_to=["apps"]), "visible_to must be a list"),  # type: ignore[list-item]
        (FACE, r"a tool has an App, as in App\('ui://…'\)"),
        (None, "a tool has an App"),
    ],
)
def test_a_tool_with_what_is_no_app(app: Any, why: str) -> None:
    registry = Registry("clock", extensions=[Apps(Page(FACE, HTML))])
    with pytest.raises(SchemaError, match=f"Tool 'now': .*{why}"):

        @registry.tool(extensions={UI: app})
        async def now() -> str:
            return ""


def test_only_tools_have_pages() -> None:
    registry = Registry("clock", extensions=[Apps(Page(FACE, HTML))])
    with pytest.raises(SchemaError, match="a tool has an App"):

        @registry.resource("clock://now", extensions={UI: App(FACE)})
        async def now() -> str:
            return ""


# -- files ----------------------------------------------------------------------------------------


async def test_a_file_is_read_anew(tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(HTML)
    async with connect(make(Page(FACE, file))) as client:
        assert (await client.read_resource(FACE)).text == HTML
        file.write_text(HTML + "<p>More")
        assert (await client.read_resource(FACE)).text == HTML + "<p>More"
        for broken in ("no page", HTML + "x" * LARGEST):
            file.write_text(broken)
            with pytest.raises(McpError, match="internal error"):
                await client.read_resource(FACE)
