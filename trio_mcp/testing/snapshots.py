"""Snapshots: JSON files beside tests, with what a server offered when they were written."""

from __future__ import annotations

import difflib
import json
import re
from pathlib import Path
from typing import Any, Final

from trio_mcp.wire.methods import LISTS

UPDATE: Final = "--mcp-snapshot-update"
_MAX_LINES: Final = 200
"""Of a difference that is shown."""


async def offers_of(client: Any) -> dict[str, Any]:
    """Ask a server for all that it offers, as it is on the wire.

    The version of the server is left out, which changes when nothing else does.
    """
    info = client.server_info
    found: dict[str, Any] = {
        "server": info and info.name,
        "instructions": client.instructions,
        "capabilities": dict(client.capabilities),
    }
    for method, (capability, key) in LISTS.items():
        if capability in client.capabilities:
            found[key] = await client.list_all(method, key, fresh=True)
    return {key: value for key, value in found.items() if value not in (None, [])}


def snapshot_of(test_file: Path, test_name: str, name: str | None) -> Path:
    """Return the file of a snapshot, beside the test and named after it."""
    words = (test_file.stem, test_name, name or "")
    parts = [re.sub(r"[^\w.-]+", "-", word).strip("-") for word in words]
    return test_file.with_name(".".join(part for part in parts if part) + ".json")


def compare(found: Any, path: Path, *, update: bool) -> None:
    """Compare something with a snapshot (else `AssertionError`), or write it there."""
    text = json.dumps(found, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    if update:
        path.write_text(text, encoding="utf-8")
        return
    if not path.exists():
        raise AssertionError(f"there is no snapshot {path.name} yet: pytest {UPDATE} writes it")
    before = path.read_text(encoding="utf-8")
    if before != text:
        shown = _difference(before, text, path.name)
        hint = f"if that is meant, pytest {UPDATE} writes it"
        raise AssertionError(f"the server offers something else than {path.name}:\n{shown}\n{hint}")


def _difference(before: str, after: str, name: str) -> str:
    lines = list(
        difflib.unified_diff(before.splitlines(), after.splitlines(), name, "now", lineterm="")
    )
    more = len(lines) - _MAX_LINES
    return "\n".join([*lines[:_MAX_LINES], *([f"… and {more} more lines"] if more > 0 else [])])
