"""A network that splits between one instance and Redis: what this instance and the others do.

What clients see of it through a balancer is counted in `test_faults`.
"""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path

import httpx2
import pytest
import trio

from tests.faults.fleet import running
from tests.faults.load import PATIENCE, Caller, Outcome

pytestmark = [
    pytest.mark.needs("redis-server", "nginx"),
    pytest.mark.long,
    pytest.mark.requirement("M4"),
]


async def test_an_instance_that_is_cut_off_from_the_store(tmp_path: Path) -> None:
    async with (
        running(tmp_path, relayed=1) as fleet,
        httpx2.AsyncClient(timeout=PATIENCE, trust_env=False) as http,
    ):
        cut, whole, _ = (each.url for each in fleet.instances)
        known = Caller(cut, "known", "legacy")
        unknown = Caller(whole, "unknown", "legacy")
        new = Caller(cut, "new", "legacy")
        modern = Caller(cut, "modern", "modern")
        assert await known.begin(http) == "answered"
        assert await unknown.begin(http) == "answered"
        fleet.relays[0].cut()

        # What needs nobody else is served, what does is refused: and that is not done.
        assert await known.call(http, "of a known session") == "answered"
        assert await modern.call(http, "of no session") == "answered"
        unknown.url = cut
        outcomes: Counter[Outcome] = Counter()

        async def note(caller: Caller, key: str | None = None) -> None:
            outcomes[await (caller.call(http, key) if key else caller.begin(http))] += 1

        async with trio.open_nursery() as nursery:
            nursery.start_soon(note, unknown, "refused")
            nursery.start_soon(note, new)
        assert outcomes == {"refused (503)": 2}

        # The others go on, and what they are told is not told to it.
        unknown.url = known.url = whole
        assert await unknown.call(http, "elsewhere") == "answered"
        assert await known.call(http, "known elsewhere") == "answered"
        assert await known.end(http) == 200
        known.url = cut
        assert await known.call(http, "after its end") == "answered"

        # Until it is whole again. Its connections are forgotten, and it makes new ones.
        fleet.relays[0].heal(forget=True)
        unknown.url = cut
        await _until(unknown, http, "answered", "late")
        await _until(known, http, "no session (404)", "ended")
        marks = Counter(fleet.marks.read_text().splitlines())
        assert set(marks.values()) == {1}
        assert "refused" not in marks


async def _until(caller: Caller, http: httpx2.AsyncClient, wanted: Outcome, key: str) -> None:
    """Call until it comes out as it should."""
    with trio.fail_after(120):
        for number in itertools.count(1):
            if await caller.call(http, f"{key} {number}") == wanted:
                return
            await trio.sleep(0.01)
