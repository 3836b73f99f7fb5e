"""`trio-mcp publish --dry-run`: `server.json` for the official registry, written and checked."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from trio_mcp.cli.failures import OK, Failure, Usage
from trio_mcp.cli.packaging.bundle import settings_of
from trio_mcp.cli.packaging.project import find_project
from trio_mcp.cli.packaging.server_json import make_server_json, problems_of
from trio_mcp.cli.screen import Screen, to_json
from trio_mcp.cli.target import folder_of, load_registry, registry_target


def publish(
    target: Annotated[str, Parameter(name="TARGET", help="FILE.py:REGISTRY or MODULE:REGISTRY.")],
    /,
    *,
    name: str,
    dry_run: bool = False,
    output: Annotated[Path, Parameter(alias="-o")] = Path("server.json"),
    remote: tuple[str, ...] = (),
    setting: tuple[str, ...] = (),
    secret: tuple[str, ...] = (),
) -> int:
    """Write the server.json of a package on PyPI, and check it by the rules of the registry.

    Publishing itself is for the registry's own program: mcp-publisher publish.

    Args:
        target: What is served.
        name: The server's name in the registry, such as io.github.me/weather.
        dry_run: Write and check, and publish nothing; there is nothing else so far.
        output: The file to write.
        remote: A URL where the server can be reached. May be repeated.
        setting: A variable KEY, or KEY=DESCRIPTION, that the server needs. May be repeated.
        secret: The same for a password or a key. May be repeated.
    """
    if not dry_run:
        raise Usage("--dry-run writes server.json and checks it; mcp-publisher publishes it")
    place = registry_target(target)
    project = find_project(folder_of(place))
    registry = load_registry(place)
    document = make_server_json(
        project,
        registry.info,
        name=name,
        remotes=remote,
        settings=settings_of(setting, secret),
    )
    screen = Screen()
    problems = list(problems_of(document, project))
    for each in problems:
        screen.note(each, "red")
    if problems:
        raise Failure(f"the registry would refuse it ({len(problems)} reasons above)")
    output.write_text(to_json(document) + "\n", encoding="utf-8")
    screen.note(f"Written: {output}. Publish it with: mcp-publisher publish", "green")
    return OK
