"""Whatever goes wrong: nothing is done twice, no more is lost than what was under way, all recovers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.faults import FAULTS, Fault
from tests.faults.fleet import SIZE
from tests.faults.run import CALLERS, try_out

pytestmark = [pytest.mark.needs("redis-server", "nginx"), pytest.mark.requirement("M4")]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
async def test_what_survives(fault: Fault, tmp_path: Path) -> None:
    result = await try_out(fault, 2.0, tmp_path / "fleet")
    outcomes = result.outcomes
    assert outcomes["answered"] > 50
    assert result.recovered
    assert result.twice == 0
    assert outcomes["answered with an error"] == 0
    assert outcomes["broken"] <= (2 * CALLERS if fault.may_break else 0)
    assert result.unknown <= outcomes["broken"]
    if not fault.may_refuse:
        assert outcomes["refused (503)"] == 0
    assert outcomes["no session (404)"] <= (SIZE * CALLERS if fault.may_forget else 0)
