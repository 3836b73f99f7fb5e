"""`trio-mcp inspect`: connect, and let a person try things out."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from attrs import frozen
from cyclopts import Parameter, validators

from trio_mcp.cli.failures import Usage, require
from trio_mcp.cli.options import NO_OPTIONS, ConnectionOptions, TargetWord, as_words
from trio_mcp.cli.running import run_async
from trio_mcp.cli.screen import Screen
from trio_mcp.cli.target import parse_target


@Parameter(name="*", group="In a browser")
@frozen(kw_only=True)
class WebOptions:
    """Whether and how the session is on a page."""

    web: bool = False
    """Serve a page to try the server out on, to this machine only."""
    port: Annotated[int, Parameter(validator=validators.Number(gte=0, lte=65535))] = 0
    """The port of the page; any that is free if left out."""
    open: bool = False
    """Open the page in the browser."""


def inspect(
    target: TargetWord,
    /,
    *,
    page: WebOptions = WebOptions(),
    options: ConnectionOptions = NO_OPTIONS,
) -> int:
    """Try a server out in an interactive session, or on a page.

    Ctrl-C cancels the call that runs, quit or Ctrl-D leaves, Tab completes, and the arrow keys
    recall what was typed before. Where stdin is not a terminal, commands are read from it.
    """
    place = parse_target(target)
    if page.web:
        require("httptools", "--web", "http")
        from trio_mcp.cli.inspecting.relay import serve_page

        return run_async(partial(serve_page, place, options, Screen(), page.port, opens=page.open))
    if as_words(page):
        raise Usage(f"{as_words(page)[0].partition('=')[0]} does nothing without --web")
    from trio_mcp.cli.inspecting.session import Inspection

    inspection = Inspection(place, options, Screen(ends_lines=True))
    return run_async(inspection.run, on_interrupt=inspection.interrupt)
