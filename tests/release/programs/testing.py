"""`testing`: pytest, and the fixture `mcp`."""

import subprocess
import sys
from pathlib import Path

TEST = """
import plants
import pytest

@pytest.fixture
def mcp_server():
    return plants.registry

@pytest.mark.mcp_revisions
async def test_a_plant(mcp):
    async with mcp.connect() as client:
        assert (await client.call_tool("find_plant", {"name": "Fern"})).text
"""

Path("test_plants.py").write_text(TEST)
subprocess.run([sys.executable, "-m", "pytest", "-q", "test_plants.py"], check=True)
