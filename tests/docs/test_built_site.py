"""The site as `make docs` has built it: as Markdown, in previews, and in a browser."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import unquote

import pytest

from tests.interop.packages import FOLDER as NPM
from tests.support.processes import ROOT

pytestmark = [pytest.mark.needs("site"), pytest.mark.requirement("T4")]

SITE = ROOT / "docs" / "_build"
WITHOUT_MARKDOWN = {SITE / f"{name}.html" for name in ("genindex", "search", "py-modindex")}
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)\s]*)?\)")


def pages() -> list[Path]:
    """The pages, but for those that show source or that Sphinx makes of its own."""
    found = {page for page in SITE.rglob("*.html") if page.relative_to(SITE).parts[0][0] != "_"}
    return sorted(found - WITHOUT_MARKDOWN)


def targets(page: Path) -> list[Path]:
    """The files of the site to which a page in Markdown leads."""
    text = re.sub(r"^( *)```.*?^\1```$|`[^`\n]+`", "", page.read_text(), flags=re.M | re.S)
    relative = [each for each in LINK.findall(text) if not re.match(r"\w+:|/", each)]
    return [(page.parent / unquote(each)).resolve() for each in relative]


def test_each_page_stands_beside_it_as_markdown_and_names_it() -> None:
    assert len(pages()) > 200
    for page in pages():
        markdown = page.with_suffix(".md").read_text()
        assert markdown.startswith("# ")
        assert "<div" not in re.sub(r"```.*?```|`[^`]*`", "", markdown, flags=re.S)
        head = page.read_text().partition("</head>")[0]
        assert f'<link rel="alternate" type="text/markdown" href="{page.stem}.md">' in head


def test_links_of_pages_in_markdown_lead_to_pages_in_markdown() -> None:
    for page in pages():
        for target in targets(page.with_suffix(".md")):
            assert target.exists(), f"{page.stem}.md: {target}"
            assert target.suffix != ".html"


def test_llms_txt_lists_every_page_by_its_part() -> None:
    listed = SITE / "llms.txt"
    text = listed.read_text()
    parts = re.findall(r"^## (.+)$", text, re.M)
    menu = re.findall(r"^:caption: (.+)$", (ROOT / "docs" / "index.md").read_text(), re.M)
    assert parts == [*menu, "Optional"]
    markdown = {page.with_suffix(".md").resolve() for page in pages()}
    assert {*targets(listed), (SITE / "index.md").resolve()} == markdown
    assert [line for line in text.splitlines() if line[:2] == "- " and ".md): " not in line] == []


def test_llms_full_txt_has_every_page_once() -> None:
    full = (SITE / "llms-full.txt").read_text()
    for page in pages():
        assert full.count(page.with_suffix(".md").read_text()) == 1


def test_a_page_as_markdown_has_what_the_page_shows() -> None:
    home = (SITE / "index.md").read_text()
    assert "**Why" not in home
    assert "## Why trio-mcp?" in home
    assert home.count("```python") == 4  # the tabs, and the larger server
    benchmarks = (SITE / "benchmarks.md").read_text()
    assert "| trio-mcp |" in benchmarks
    client = (SITE / "reference" / "classes" / "trio_mcp.Client.md").read_text()
    assert "| `call_tool()` | Call a tool and wait for its result. |" in client
    commands = (SITE / "reference" / "commands.md").read_text()
    assert "## trio-mcp serve" in commands


def test_each_class_page_leads_to_the_source() -> None:
    classes = list((SITE / "reference" / "classes").glob("*.html"))
    assert len(classes) > 100
    assert [page.stem for page in classes if "viewcode-link" not in page.read_text()] == []


def test_previews_have_title_and_text_and_claim_no_address() -> None:
    for name in ("index", "guides/tools", "reference/classes/trio_mcp.Client"):
        head = (SITE / f"{name}.html").read_text().partition("</head>")[0]
        assert re.search(r'<meta property="og:title" content="[^"]+"', head)
        assert re.search(r'<meta property="og:description" content="[^"]+"', head)
        assert "og:url" not in head
        assert "og:image" not in head


# -- in a browser -----------------------------------------------------------------------------

JUDGED = [
    "index.html",
    "guides/asking.html",
    "reference/classes/trio_mcp.Client.html",
    "benchmarks.html",
    "search.html?q=docker",
]
FIRST = {
    "docker": "guides/deploy/docker.html",
    "timeout": "guides/timeouts.html",
    "fastapi": "guides/fastapi.html",
    "github login": "guides/providers/github.html",
    "progress": "guides/progress.html",
    "ask user": "guides/asking.html",
    "kubernetes": "guides/deploy/kubernetes.html",
    "pydantic": "guides/models.html",
    "metrics": "guides/telemetry.html",
    "claude desktop": "hosts.html",
    "openapi": "guides/openapi.html",
    "environment variable": "reference/environment.html",
    "Client": "reference/classes/trio_mcp.Client.html",
}
"""By what is searched, the page that stands first."""


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args: Any) -> None:
        """Say nothing of requests."""


@contextmanager
def served() -> Iterator[str]:
    """Serve the site, as a server for files does."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(SITE))) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.needs("node", "chromium")
def test_pages_are_accessible_and_searches_find_the_guide(tmp_path: Path) -> None:
    """Light and dark, on a desktop and on a phone; axe judges."""
    (tmp_path / "node_modules").symlink_to(NPM / "node_modules")
    script = shutil.copy(Path(__file__).with_name("site.mjs"), tmp_path)
    asked = json.dumps({"pages": JUDGED, "queries": [*FIRST]})
    with served() as address:
        command = ["node", script, str(shutil.which("chromium")), address, asked]
        done = subprocess.run(command, capture_output=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr.decode()
    found = json.loads(done.stdout)
    assert found["violations"] == []
    assert found["first"] == FIRST
