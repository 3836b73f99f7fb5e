"""A host's side of pages: finding them, checking them, and what they may do."""

import base64
from types import MappingProxyType
from typing import Any

import pytest

from trio_mcp import Limits, Registry, connect
from trio_mcp.errors import InvalidPage, ToolDisabled
from trio_mcp.extensions.apps import Apps, AppsClient, Csp, Page, RemotePage
from trio_mcp.extensions.apps.page import LARGEST, MIME_TYPE

pytestmark = pytest.mark.requirement("K5")

FACE = "ui://clock/face"
HTML = "<!doctype html><title>Clock</title>"
CONTENT: dict[str, Any] = {"uri": FACE, "mimeType": MIME_TYPE, "text": HTML}


class Fake(AppsClient):
    """Gets what a server might send."""

    def __init__(self, content: Any, listed: Any = ()) -> None:
        self.content, self.listed = content, listed

    async def request(self, method: str, params: Any) -> Any:
        return {"contents": self.content}

    async def list_all(self, method: str, key: str) -> Any:
        return self.listed

    async def get(self, uri: str = FACE) -> RemotePage:
        return await self.read(self, uri)  # type: ignore[arg-type]  # it is its own client


async def test_a_page_as_it_should_be() -> None:
    csp = Csp(
        connect=["https://a.example"],
        resources=["https://b.example"],
        frames=["https://c.example"],
        base_uris=["https://d.example"],
    )
    page = Page(
        FACE,
        HTML,
        csp=csp,
        permissions=["camera", "clipboardWrite"],
        prefers_border=True,
        domain="x",
    )
    apps = AppsClient()
    async with connect(Registry("clock", extensions=[Apps(page)]), extensions=[apps]) as client:
        found = await apps.read(client, FACE)
        assert found.html == HTML
        assert (found.domain, found.prefers_border) == ("x", True)
        assert found.allow == "camera; clipboard-write"
        assert found.policy == (
            "default-src 'none'; script-src 'self' 'unsafe-inline' https://b.example; "
            "style-src 'self' 'unsafe-inline' https://b.example; img-src 'self' data: https://b.example; "
            "font-src 'self' https://b.example; media-src 'self' data: https://b.example; "
            "connect-src https://a.example; frame-src https://c.example; object-src 'none'; "
            "base-uri https://d.example"
        )


async def test_a_page_that_asks_for_nothing_may_do_nothing() -> None:
    found = await Fake([CONTENT]).get()
    assert (found.allow, found.permissions, found.domain, found.prefers_border) == (
        "",
        frozenset(),
        None,
        None,
    )
    assert found.policy == (
        "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
        "img-src 'self' data:; font-src 'self'; media-src 'self' data:; connect-src 'none'; "
        "frame-src 'none'; object-src 'none'; base-uri 'self'"
    )


async def test_a_page_in_base64() -> None:
    blob = base64.b64encode("<!doctype html>é".encode()).decode()
    content = {"uri": FACE, "mimeType": "Text/HTML; profile=mcp-app", "blob": blob}
    assert (await Fake([{"uri": "other"}, content]).get()).html == "<!doctype html>é"


async def test_what_the_page_says_comes_before_what_the_list_says() -> None:
    listed = [
        5,
        {"uri": "ui://other"},
        {"uri": FACE, "_meta": {"ui": {"prefersBorder": True, "domain": "list"}}},
    ]
    assert (await Fake([CONTENT], listed).get()).domain == "list"
    own = CONTENT | {"_meta": {"ui": {"domain": "page"}}}
    found = await Fake([own], listed).get()
    assert (found.domain, found.prefers_border) == ("page", None)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "something else"),
        ([], "something else"),
        ({}, "something else"),
        ([None], "something else"),
        ([CONTENT | {"uri": "ui://clock/back"}], "something else"),
        ([CONTENT | {"mimeType": "text/html"}], "its type is 'text/html'"),
        ([CONTENT | {"mimeType": None}], "its type is None"),
        ([CONTENT | {"mimeType": ["x"]}], "its type is"),
        ([CONTENT | {"text": None}], "empty"),
        ([CONTENT | {"text": 5}], "empty"),
        ([CONTENT | {"text": "<p>x"}], "begins with"),
        ([CONTENT | {"blob": "%%%"}], "base64"),
        ([CONTENT | {"blob": "é"}], "ASCII"),
        ([CONTENT | {"blob": "/w=="}], "utf-8"),
        ([CONTENT | {"text": HTML + "x" * LARGEST}], "10 MiB"),
    ],
)
async def test_what_is_no_page(content: Any, why: str) -> None:
    with pytest.raises(InvalidPage, match=why):
        await Fake(content).get()


@pytest.mark.parametrize(
    ("ui", "why"),
    [
        ({"csp": []}, "must be objects"),
        ({"csp": "x"}, "must be objects"),
        ({"permissions": ["camera"]}, "must be objects"),
        ({"csp": {"connectDomains": "https://a.example"}}, "connectDomains must be a list"),
        ({"csp": {"frameDomains": {}}}, "frameDomains must be a list"),
        ({"csp": {"connectDomains": ["https://a.example; script-src *"]}}, "is not an origin"),
        ({"csp": {"resourceDomains": ["'unsafe-eval'"]}}, "is not an origin"),
        ({"csp": {"baseUriDomains": ["*"]}}, "is not an origin"),
        ({"csp": {"frameDomains": [None]}}, "is not an origin"),
        ({"csp": {"frameDomains": ["https://" + "a." * 200 + "example"]}}, "is not an origin"),
    ],
)
async def test_what_no_page_may_do(ui: Any, why: str) -> None:
    for fake in (
        Fake([CONTENT | {"_meta": {"ui": ui}}]),
        Fake([CONTENT], [{"uri": FACE, "_meta": {"ui": ui}}]),
    ):
        with pytest.raises(InvalidPage, match=why):
            await fake.get()


async def test_what_nobody_knows_is_left_out() -> None:
    ui = {
        "permissions": {"camera": {}, "bluetooth": {}},
        "domain": 5,
        "prefersBorder": "yes",
        "csp": {"x": 1},
    }
    found = await Fake([CONTENT | {"_meta": {"ui": ui}}]).get()
    assert (found.permissions, found.domain, found.prefers_border) == ({"camera"}, None, None)


@pytest.mark.parametrize("uri", ["https://example.com", "file:///etc/passwd", "skill://x", ""])
async def test_only_pages_are_read(uri: str) -> None:
    with pytest.raises(InvalidPage, match="begins with ui://"):
        await Fake([CONTENT]).get(uri)


@pytest.mark.parametrize(
    ("meta", "page", "visible"),
    [
        ({"ui": {"resourceUri": FACE}}, FACE, {"model", "app"}),
        ({"ui": {"resourceUri": FACE, "visibility": ["app"]}}, FACE, {"app"}),
        ({"ui": {"visibility": ["model", "robot"]}}, None, {"model"}),
        ({"ui": {"visibility": []}}, None, set()),
        ({"ui": {"visibility": "model"}}, None, set()),
        ({"ui": {"visibility": [["model"]]}}, None, set()),
        ({"ui/resourceUri": FACE}, FACE, {"model", "app"}),
        ({"ui": {"resourceUri": FACE}, "ui/resourceUri": "ui://old"}, FACE, {"model", "app"}),
        ({"ui": {"resourceUri": "https://example.com"}}, None, {"model", "app"}),
        ({"ui": {"resourceUri": 5}}, None, {"model", "app"}),
        ({"ui": 5}, None, {"model", "app"}),
        ({"ui": []}, None, {"model", "app"}),
        (None, None, {"model", "app"}),
    ],
)
async def test_what_a_tool_says_of_its_page(meta: Any, page: str | None, visible: set[str]) -> None:
    """The server does not declare the extension, as many do not."""
    registry = Registry("clock")

    @registry.tool(meta=meta)
    async def now() -> str:
        return "12:30"

    apps = AppsClient()
    async with connect(registry, extensions=[apps]) as client:
        assert apps.page_of(client, "now") == page
        assert apps.visible_to(client, "now") == visible
        assert apps.for_model(client) == (["now"] if "model" in visible else [])
        if "app" in visible:
            assert (await apps.call(client, "now")).text == "12:30"
        else:
            with pytest.raises(ToolDisabled, match="pages may not call the tool 'now'"):
                await apps.call(client, "now")
        with pytest.raises(KeyError):
            apps.page_of(client, "nothing")


async def test_servers_hear_that_it_shows_pages() -> None:
    """Also those that do not declare the extension: what they register may depend on it."""
    told: list[Any] = []

    class Listens(Apps):
        async def around(self, request: Any, proceed: Any) -> Any:
            told.append(request.settings)
            return await super().around(request, proceed)

    registry = Registry("clock", extensions=[Listens()])

    @registry.tool
    async def now() -> str:
        return "12:30"

    async with connect(registry, extensions=[AppsClient()]) as client:
        await client.call_tool("now")
    assert told == [{"mimeTypes": [MIME_TYPE]}]
    assert AppsClient.settings == MappingProxyType({"mimeTypes": [MIME_TYPE]})


async def test_a_page_of_10_mib() -> None:
    html = HTML + "x" * (LARGEST - len(HTML))
    registry = Registry("clock", extensions=[Apps(Page(FACE, html))])
    apps = AppsClient()
    limits = Limits(max_message_bytes=11 * 1024 * 1024)
    async with connect(registry, extensions=[apps], limits=limits) as client:
        assert (await apps.read(client, FACE)).html == html
