"""What pytest loads at its start: the option, the marker and the fixtures, and nothing else."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from trio_mcp.testing.tester import McpTester

_MARKER = "mcp_revisions"

pytest.register_assert_rewrite("trio_mcp.testing.suites")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that writes snapshots."""
    parser.getgroup("mcp").addoption(
        "--mcp-snapshot-update",
        action="store_true",
        help="write what servers offer to the snapshots, instead of comparing it",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line(
        "markers",
        f"{_MARKER}(*names): repeat the test with `mcp` in each of these revisions of the "
        "protocol; in all of them if none is named",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Repeat a test with the marker for each revision."""
    mark = metafunc.definition.get_closest_marker(_MARKER)
    if mark is not None and "mcp" in metafunc.fixturenames:
        metafunc.fixturenames.append("mcp_revision")
        metafunc.parametrize("mcp_revision", _revisions(mark.args), indirect=True)


def _revisions(names: Sequence[str]) -> list[str]:
    from trio_mcp.wire.revisions import BY_NAME

    known = list(BY_NAME)
    for name in names:
        if name not in known:
            raise ValueError(f"mcp_revisions: there is no revision {name!r}, only {known}")
    return list(names) or known


@pytest.fixture
def mcp_revision(request: pytest.FixtureRequest) -> str | None:
    """The revision of the protocol that `mcp` speaks; `None` for the newest."""
    return getattr(request, "param", None)


@pytest.fixture
def mcp(request: pytest.FixtureRequest, mcp_revision: str | None) -> McpTester:
    """Connect to a server under test, script answers, collect its messages, compare its offers."""
    from trio_mcp.testing.tester import McpTester

    return McpTester(request, mcp_revision)


def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an `async def` test that uses `mcp` in Trio, unless another plugin runs it."""
    test: Any = pyfuncitem.obj
    if not inspect.iscoroutinefunction(test) or "mcp" not in pyfuncitem.fixturenames:
        return None
    import trio

    names = pyfuncitem._fixtureinfo.argnames
    run = partial(test, **{name: pyfuncitem.funcargs[name] for name in names})
    trio.run(run, strict_exception_groups=True)
    return True
