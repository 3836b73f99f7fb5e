"""`trio-mcp install` and `uninstall`: show the change, ask, back up, and write."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from trio_mcp.cli.failures import FAILED, OK, Failure, missing
from trio_mcp.cli.install.editing import BrokenJson, Document
from trio_mcp.cli.install.files import ConfigFile, read_config
from trio_mcp.cli.install.hosts import HOSTS, Host, HostName, Scope, command_of, name_of
from trio_mcp.cli.options import ConnectionOptions, TargetWord, check_way, pairs
from trio_mcp.cli.schemas import member
from trio_mcp.cli.screen import Screen
from trio_mcp.cli.target import parse_target
from trio_mcp.wire.jsonrpc import Json

_STYLES = {"+": "green", "-": "red", "@": "cyan"}


def install(
    target: TargetWord,
    /,
    *,
    host: HostName,
    name: str | None = None,
    scope: Scope | None = None,
    env: tuple[str, ...] = (),
    header: tuple[str, ...] = (),
    file: Path | None = None,
    replace: bool = False,
    yes: Annotated[bool, Parameter(alias="-y")] = False,
    dry_run: bool = False,
) -> int:
    """Add a server to the configuration of a host.

    The change is shown first. Whatever else is in the file stays as it is, and a copy of the old
    file is kept.

    Args:
        target: FILE.py:REGISTRY, MODULE:REGISTRY or a URL; or else a command, last, after --.
        host: The host.
        name: What the host shall call the server.
        scope: For the project in this directory, which is the default where there are projects, or
            for all that you do.
        env: A variable KEY=VALUE for the server. May be repeated.
        header: For a URL, a header 'Name: value' of each request. May be repeated.
        file: The configuration, where it is not where the host looks for it.
        replace: Change the server of that name, if the host has one.
        yes: Do not ask.
        dry_run: Show the change, and leave it at that.
    """
    place = parse_target(target)
    chosen = HOSTS[host]
    called = name_of(place, name)
    check_way(place, env, header=header)
    if place.url is not None:
        entry = chosen.url_entry(place.url, ConnectionOptions(header=header).headers())
    else:
        entry = chosen.command_entry(*command_of(place, pairs(env)))
    config = read_config(file or chosen.file(scope))
    with _naming(config):
        there = Document(config.text, comments=chosen.comments).get((chosen.key, called))
        after = _edited(config.text, chosen, called, entry)
    if there is not None and after != config.text and not replace:
        why = f"{config.path} has another server {called!r}"
        raise Failure(f"{why}: --replace changes it, --name NAME adds this one beside it")
    return _settle(Screen(), config, after, chosen, yes=yes, dry_run=dry_run)


def uninstall(
    name: Annotated[str, Parameter(help="What the host calls the server.")],
    /,
    *,
    host: Annotated[HostName, Parameter(help="The host.")],
    scope: Annotated[Scope | None, Parameter(help="As it was installed.")] = None,
    file: Annotated[Path | None, Parameter(help="The configuration, if it is elsewhere.")] = None,
    yes: Annotated[bool, Parameter(alias="-y", help="Do not ask.")] = False,
    dry_run: Annotated[bool, Parameter(help="Show the change, and leave it at that.")] = False,
) -> int:
    """Remove a server from the configuration of a host.

    The change is shown first. Whatever else is in the file stays as it is, and a copy of the old
    file is kept.
    """
    chosen = HOSTS[host]
    config = read_config(file or chosen.file(scope))
    with _naming(config):
        document = Document(config.text, comments=chosen.comments)
        servers = member(document.value, chosen.key, dict)
        if name not in servers:
            raise Failure(missing("server", name, list(servers), of=str(config.path)))
        document.remove((chosen.key, name))
    return _settle(Screen(), config, document.text, chosen, yes=yes, dry_run=dry_run)


@contextmanager
def _naming(config: ConfigFile) -> Iterator[None]:
    """Add the file's path to errors in a document."""
    try:
        yield
    except BrokenJson as error:
        raise Failure(f"{config.path}: {error}; nothing was changed") from None


def _edited(text: str, host: Host, name: str, entry: dict[str, Json]) -> str:
    document = Document(text, comments=host.comments)
    path = (host.key, name)
    there = document.get(path)
    if not isinstance(there, dict) or (host.url_key in there) != (host.url_key in entry):
        if there != entry:
            document.set(path, entry)
        return document.text if there != entry else text
    before = document.text
    for key, value in entry.items():
        if isinstance(value, dict):  # variables and headers: those that are there stay
            for each, text_of_it in value.items():
                if document.get((*path, key, each)) != text_of_it:
                    document.set((*path, key, each), text_of_it)
        elif document.get((*path, key)) != value:
            document.set((*path, key), value)
    return document.text if document.text != before else text


def _settle(
    screen: Screen, config: ConfigFile, after: str, host: Host, *, yes: bool, dry_run: bool
) -> int:
    if after == config.text:
        screen.note(f"{config.path} has it already: nothing to do.")
        return OK
    _show_difference(screen, config, after)
    if dry_run:
        return OK
    if not yes:
        if not screen.can_ask:
            raise Failure(
                "there is no terminal to ask on: --yes writes it, --dry-run only shows it"
            )
        screen.err.print("Write this? [y/N] ", end="")
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            screen.note("Nothing was changed.")
            return FAILED
    backup = config.replace(after)
    screen.note(f"Written: {config.path}", "green")
    if backup is not None:
        screen.note(f"The old one: {backup}")
    if host.afterwards:
        screen.note(host.afterwards)
    return OK


def _show_difference(screen: Screen, config: ConfigFile, after: str) -> None:
    name, before = str(config.path), config.text.splitlines()
    for line in difflib.unified_diff(before, after.splitlines(), name, name, lineterm=""):
        screen.text(line, _STYLES.get(line[:1], ""))
