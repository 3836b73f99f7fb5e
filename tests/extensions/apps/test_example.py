"""The example with a page: in hosts that show it, by the protocol of pages, and in others."""

import base64
import json
import re
import urllib.parse
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import trio

from docs.examples import electricity
from tests.support.processes import run
from trio_mcp import connect
from trio_mcp.extensions.apps import AppsClient

pytestmark = pytest.mark.requirement("K5")

HOST = Path(__file__).with_name("host.html")
DAYS = ("2026-11-20", "2026-11-21")
BROWSER = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--lang=en-US"]


async def shown(folder: Path, context: dict[str, Any], **setup: Any) -> Any:
    """Show the page in a browser, with a host that answers as told, and return what came of it."""
    apps = AppsClient()
    async with connect(electricity.registry, extensions=[apps]) as client:
        uri = apps.page_of(client, "usage")
        assert uri is not None
        page = await apps.read(client, uri)
        results = {}
        for day in DAYS:
            call = {"name": "usage", "arguments": {"day": day}}
            results[day] = await client.request("tools/call", call)
    policy = f'<meta http-equiv="Content-Security-Policy" content="{page.policy}">'
    html = page.html.replace("<head>", f"<head>{policy}", 1)
    setup = {"html": html, "context": context, "results": results, "day": DAYS[0], **setup}
    host = HOST.read_text().replace("/*SETUP*/ null", json.dumps(setup).replace("</", "<\\/"))
    file = folder / "host.html"
    file.write_text(host)
    profile = f"--user-data-dir={folder / 'profile'}"
    command = [*BROWSER, profile, "--virtual-time-budget=20000", "--dump-dom", file.as_uri()]
    with trio.fail_after(100):
        dumped = (await run(command)).stdout.decode()
    report = re.search(r'<pre id="report" hidden="">([^<]+)', dumped)
    assert report is not None, dumped[-1000:]
    return json.loads(urllib.parse.unquote(base64.b64decode(report[1]).decode()))


@pytest.mark.needs("chromium")
async def test_the_page_shows_what_the_tool_returns(tmp_path: Path) -> None:
    found = await shown(tmp_path, {"theme": "light"})
    [initialize, initialized, pong, unknown] = [
        message
        for message in found["heard"]
        if message.get("method") != "ui/notifications/size-changed"
    ]
    assert initialize == {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "ui/initialize",
        "params": {
            "protocolVersion": "2026-01-26",
            "appInfo": {"name": "electricity", "version": "1.0"},
            "appCapabilities": {"availableDisplayModes": ["inline"]},
        },
    }
    assert initialized["method"] == "ui/notifications/initialized"
    assert pong == {"jsonrpc": "2.0", "id": "p", "result": {}}
    assert unknown["error"]["code"] == -32601
    assert found["words"]["sum"] == "22.6"
    assert "20" in found["words"]["day"]
    assert found["words"]["status"] == "Most of it from 19:00 to 20:00."
    assert found["bars"] == 24
    assert found["paper"] == "rgb(255, 255, 255)"


@pytest.mark.needs("chromium")
async def test_its_buttons_call_the_tool(tmp_path: Path) -> None:
    found = await shown(tmp_path, {"theme": "dark"}, press="after")
    methods = {message.get("method"): message.get("params") for message in found["heard"]}
    assert methods["tools/call"] == {"name": "usage", "arguments": {"day": DAYS[1]}}
    [told] = methods["ui/update-model-context"]["content"]
    assert told["text"].startswith(f"The chart shows {DAYS[1]} now. Most of it")
    assert found["words"]["sum"] == "23.5"
    assert found["paper"] == "rgb(23, 28, 35)"
    assert found["heard"][-1] == {"jsonrpc": "2.0", "id": "end", "result": {}}


@pytest.mark.needs("chromium")
async def test_it_takes_the_colours_of_the_host(tmp_path: Path) -> None:
    styles = {"variables": {"--color-background-primary": "rgb(1, 2, 3)"}}
    found = await shown(tmp_path, {"styles": styles})
    assert found["paper"] == "rgb(1, 2, 3)"


@pytest.mark.needs("chromium")
async def test_it_says_so_if_the_host_refuses_a_call(tmp_path: Path) -> None:
    found = await shown(tmp_path, {}, press="before", last="tools/call")
    assert found["words"]["status"] == "The host says no"
    assert found["words"]["sum"] == "22.6"


async def test_other_clients_get_a_sentence() -> None:
    async with connect(electricity.registry) as client:
        text = (await client.call_tool("usage", {"day": DAYS[0]})).text
        assert text == "2026-11-20: 22.6 kWh, most of it from 19:00 to 20:00"
        found = await client.call_tool("usage", {"day": DAYS[0]}, returns=electricity.Usage)
        assert found.day == date(2026, 11, 20)
        assert len(found.kwh) == 24


@pytest.mark.long
def test_the_page_asks_nobody_else() -> None:
    html = electricity.CHART.load()
    assert set(re.findall(r"https?://[^\"\s]+", html)) == {"http://www.w3.org/2000/svg"}
    assert electricity.CHART.meta() == {"ui": {"prefersBorder": True}}
