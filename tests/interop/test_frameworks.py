"""LangChain, the OpenAI Agents SDK, Pydantic AI and FastAPI, by their real packages."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.docs.pages import blocks_of
from tests.interop.packages import FRAMEWORKS
from tests.support.processes import ENVIRONMENT, EXAMPLES, ROOT

PROGRAM = Path(__file__).parent / "programs" / "frameworks.py"
GUIDES = ROOT / "docs" / "guides"
TIME_LIMIT = 120

pytestmark = [pytest.mark.needs("frameworks"), pytest.mark.requirement("L1")]


@pytest.mark.parametrize("direction", ["langchain", "openai_agents", "pydantic_ai", "fastapi"])
def test_agents_use_our_client_and_their_clients_use_our_servers(direction, tmp_path) -> None:
    """The adapters and the sites are those of the guides; `fastapi` has all of their clients."""
    for block in [*blocks_of(GUIDES / "agents.md"), *blocks_of(GUIDES / "fastapi.md")]:
        if block.file is not None and block.file.endswith(("_tools.py", "_site.py")):
            (tmp_path / block.file).write_text(block.text)
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    command = [str(FRAMEWORKS.python), str(EXAMPLES / "calculator.py")]
    done = subprocess.run(
        [str(FRAMEWORKS.python), str(PROGRAM), direction, *command],
        env={**ENVIRONMENT, "PYTHONPATH": path, "OPENAI_AGENTS_DISABLE_TRACING": "1"},
        capture_output=True,
        text=True,
        timeout=TIME_LIMIT,
    )
    assert done.returncode == 0, done.stderr
