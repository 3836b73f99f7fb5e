"""The explorer's page as it is served: to whom, and with what it may do. (Browsers: tests/interop.)"""

import base64
import hashlib
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support.processes import ROOT
from tests.support.tools import echo, registry_of
from tests.transports.http.support import hosting
from trio_mcp import HttpPolicy, http_app, serve_http
from trio_mcp.transports.http.explorer import ExplorerPage

pytestmark = pytest.mark.requirement("L7")

PAGE = "/explorer"
TOKENS = HttpPolicy(tokens={"secret": "ann"}, allowed_hosts=["mcp.example.com"])


def source_of(policy: str, kind: str) -> str:
    """What a content security policy has for one kind of source."""
    return next(each for each in policy.split("; ") if each.startswith(f"{kind} "))


async def test_it_runs_its_own_script_and_asks_its_own_server_only() -> None:
    async with hosting(registry_of(echo), explorer=True) as host:
        page = await host.ask("GET", PAGE)
    assert page.status == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.headers["cache-control"] == "no-store"
    assert page.headers["x-content-type-options"] == "nosniff"
    policy = page.headers["content-security-policy"]
    for tag, kind in (("script", "script-src"), ("style", "style-src")):
        contents = re.findall(
            rf"<{tag}(?: type=\"module\")?>(.*?)</{tag}>".encode(), page.body, re.S
        )
        (digest,) = [base64.b64encode(hashlib.sha256(each).digest()).decode() for each in contents]
        assert source_of(policy, kind) == f"{kind} 'sha256-{digest}'"
    assert source_of(policy, "default-src") == "default-src 'none'"
    assert source_of(policy, "connect-src") == "connect-src 'self'"
    assert source_of(policy, "frame-ancestors") == "frame-ancestors 'none'"
    assert "unsafe" not in policy
    assert "require-trusted-types-for 'script'" in policy


async def test_the_page_fetches_nothing_from_elsewhere_and_has_no_second_script() -> None:
    html = ExplorerPage.load({}).html.decode()
    assert not re.findall(r"(?:src|href)=\"(?!data:,|#)[^\"]*\"", html)
    assert not re.findall(r"https?://(?!\^|/)[\w.]+", html)
    assert not re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(", html)
    assert not re.findall(r"<[a-z][^>]*\s(?:style|on\w+)=", html)
    assert html.count("<script") == 2, "settings, which are data, and the script"


async def test_settings_cannot_end_the_element_that_holds_them() -> None:
    html = ExplorerPage.load({"endpoint": "</script><script>alert(1)"}).html
    assert b"<script>alert" not in html
    assert b'{"endpoint":"\\u003c/script>\\u003cscript>alert(1)"}</script>' in html


async def test_it_is_off_by_default() -> None:
    async with hosting(registry_of(echo)) as host:
        assert (await host.ask("GET", PAGE)).status == 404


async def test_it_finds_the_endpoint_wherever_that_is() -> None:
    async with hosting(registry_of(echo), path="/a/b", explorer=True) as host:
        assert b'{"endpoint":"a/b"}' in (await host.ask("GET", PAGE)).body
        assert (await host.ask("POST", PAGE)).status == 405


async def test_without_tokens_it_is_for_this_machine_only() -> None:
    async with hosting(registry_of(echo), explorer=True) as host:
        for peer, status in ((("::1", 5), 200), (None, 200), (("192.0.2.7", 5), 403)):
            assert (await host.ask("GET", PAGE, client=peer)).status == status
        for headers in ({"host": "evil.example"}, {"origin": "https://evil.example"}):
            assert (await host.ask("GET", PAGE, headers=headers)).status == 403


async def test_with_tokens_the_page_is_for_all_and_the_server_for_who_has_one() -> None:
    async with hosting(registry_of(echo), TOKENS, explorer=True) as host:
        there = {"host": "mcp.example.com"}
        page = await host.ask("GET", PAGE, headers=there, client=("192.0.2.7", 5))
        assert page.status == 200
        assert b"secret" not in page.body
        assert (await host.ask("POST", headers=there)).status == 401


async def test_it_is_refused_at_the_start_beyond_this_machine() -> None:
    registry = registry_of(echo)
    with pytest.raises(ValueError, match="protect it with HttpPolicy"):
        http_app(registry, policy=HttpPolicy(allowed_hosts=["example.com"]), explorer=True)
    with pytest.raises(ValueError, match="protect it with HttpPolicy"):
        await serve_http(registry, "0.0.0.0", 0, explorer=True)
    with pytest.raises(ValueError, match="/explorer is the explorer's path"):
        http_app(registry, path=PAGE, explorer=True)


@pytest.mark.long
def test_it_is_part_of_the_wheel(tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir"]
    subprocess.run([*pip, str(tmp_path), str(ROOT)], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    assert "trio_mcp/transports/http/explorer.html" in zipfile.ZipFile(wheel).namelist()
