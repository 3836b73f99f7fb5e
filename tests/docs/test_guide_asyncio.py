"""The guide to FastAPI: what it shows and does not run is run here."""

import pytest

from tests.aio.support import in_asyncio
from tests.aio.test_http import under_uvicorn
from tests.docs.pages import blocks_of
from tests.support.processes import ROOT
from trio_mcp.aio import connect

GUIDE = ROOT / "docs" / "guides" / "fastapi.md"


@pytest.mark.requirement("L1")
@in_asyncio
async def test_the_site_with_notes_serves_under_uvicorn() -> None:
    names: dict = {"__name__": "notes_site"}
    (site,) = (block for block in blocks_of(GUIDE) if block.file == "notes_site.py")
    exec(compile(site.text, "notes_site.py", "exec", dont_inherit=True), names)
    async with under_uvicorn(names["app"]) as url, connect(f"{url}/notes/mcp") as client:
        for number, said in ((1, "There are 1 notes."), (2, "There are 2 notes.")):
            arguments = {"title": str(number), "text": "x"}
            assert (await client.call_tool("write", arguments)).text == said
