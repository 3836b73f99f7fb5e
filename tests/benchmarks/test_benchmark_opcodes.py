"""The count of opcodes: whose they are, and that a server is counted while it answers."""

from pathlib import Path

import pytest

from benchmarks import opcodes
from benchmarks.peers import OURS, Peer, python_server
from benchmarks.servers.counted import owner
from tests.support.processes import ROOT


@pytest.mark.parametrize(
    ("file", "whose"),
    [
        (str(ROOT / "trio_mcp" / "wire" / "framing.py"), "trio-mcp"),
        ("<attrs generated methods trio_mcp.wire.jsonrpc.Request>", "trio-mcp"),
        ("/x/site-packages/trio/_core/_run.py", "Trio"),
        ("<attrs generated methods trio._core._run.CancelScope>", "Trio"),
        ("/x/site-packages/outcome/_impl.py", "Trio"),
        ("/trio_mcp/.venv/lib/site-packages/trio/_core/_run.py", "Trio"),
        ("/trio-mcp/.venv/lib/python3.11/contextlib.py", "others"),
    ],
)
def test_opcodes_belong_to_whose_file_they_are_in(file: str, whose: str) -> None:
    assert owner(compile("", file, "exec")) == whose


@pytest.mark.long
def test_a_call_has_opcodes_of_ours_and_of_trio(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(opcodes, "CALLS", 200)
    peer = Peer(OURS, python_server("trio_mcp_echo.py"))
    counts = opcodes.on_stdio(peer, 1, tmp_path / "counts")
    assert counts.keys() >= {"Trio", "trio-mcp"}
    assert 100 < counts["trio-mcp"] < 100_000
