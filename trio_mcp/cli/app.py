"""The commands of `trio-mcp`, and how they end."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from inspect import BoundArguments
from typing import Final

from cyclopts import (
    App,
    CycloptsError,
    Group,
    MissingArgumentError,
    Parameter,
    UnknownCommandError,
    UnknownOptionError,
)

from trio_mcp.cli.failures import OK, USAGE, no_option, one_line, report
from trio_mcp.cli.target import SERVER_URL, is_no_target, join_command, word_of_environment
from trio_mcp.version import __version__

_COMMANDS: Final = {
    "Servers": {
        "serve": ("serve:serve", "Serve a registry on stdin and stdout, or over HTTP."),
        "proxy": ("proxy:proxy", "Serve another server, by another transport."),
        "gateway": ("proxy:gateway", "Serve all servers of an mcp.json as one."),
        "openapi": ("openapi:openapi", "Serve what an OpenAPI document describes."),
        "new": ("new.command:new", "Write a starter project."),
        "port": ("port.command:port", "Report what a server for FastMCP or the SDK needs here."),
        "install": ("install.command:install", "Add a server to the configuration of a host."),
        "uninstall": ("install.command:uninstall", "Remove it again."),
        "bundle": ("packaging.bundle:bundle", "Write a bundle that hosts install by a click."),
        "publish": ("packaging.publish:publish", "Write server.json for the official registry."),
    },
    "Using a server": {
        "tools": ("listing:tools", "Show the tools of a server."),
        "call": ("calling:call", "Call a tool."),
        "tasks": ("calling:tasks", "See to a task that was started with call --task."),
        "resources": ("listing:resources", "Show the resources of a server."),
        "read": ("calling:read", "Read a resource."),
        "prompts": ("listing:prompts", "Show the prompts of a server."),
        "prompt": ("calling:prompt", "Have a prompt written."),
        "inspect": ("inspecting.command:inspect", "Try a server out in an interactive session."),
    },
    "Logging in": {
        "login": ("login.commands:login", "Log in to a server that wants to know who you are."),
        "logout": ("login.commands:logout", "Forget that login."),
        "whoami": ("login.commands:whoami", "Show which logins are kept."),
    },
    "Examining a server": {
        "doctor": ("doctor.command:doctor", "Examine a server against the protocol."),
        "bench": ("bench.command:bench", "Measure how fast a server is."),
    },
}
"""By group and name, the command's function, imported when needed, and what it does."""

_USING: Final = {*_COMMANDS["Using a server"], *_COMMANDS["Examining a server"], "login"}
"""The commands that use the environment's target if they have none."""

_EPILOGUE: Final = (
    "A TARGET is FILE.py:REGISTRY, MODULE:REGISTRY, a URL, or any command, which then comes last, "
    "after --. Without one, commands that use a server take the one in MCP_SERVER_URL. "
    "Exit status: 0 all is well, 1 it failed, 2 the command line is wrong, 130 interrupted."
)


def make_app(*, overview: bool = True) -> App:
    app = App(
        name="trio-mcp",
        help="The Model Context Protocol for Trio: run servers, use them, examine them.",
        help_epilogue=_EPILOGUE,
        version=__version__,
        result_action="return_value",
        print_error=False,
        exit_on_error=False,
        end_of_options_delimiter="",
        default_parameter=Parameter(negative="", show_default=_shown),
        group_commands=Group("More", sort_key=len(_COMMANDS)),
    )
    for number, (title, commands) in enumerate(_COMMANDS.items()):
        group = Group(title, sort_key=number)
        for order, (name, (place, about)) in enumerate(commands.items()):
            where = f"trio_mcp.cli.{place}"
            said = about if overview else None
            app.command(where, name=name, group=group, sort_key=order, help=said, help_epilogue="")
    help = "Teach your shell to complete this command line."
    # A person's own files are for the person to edit.
    app.register_install_completion_command(add_to_startup=False, help=help)
    return app


def run(words: Sequence[str]) -> int:
    app = make_app(overview=not words or words[0].startswith("-"))
    try:
        command, bound = _parsed(app, join_command(words))
        status = command(*bound.args, **bound.kwargs)
        sys.stdout.flush()
    except CycloptsError as error:
        told = _instead(error, words) or f"{error} (see --help)"
        print(f"trio-mcp: {one_line(told)}", file=sys.stderr)
        return USAGE
    except (Exception, KeyboardInterrupt) as error:
        return report(error)
    return status if isinstance(status, int) else OK


def _parsed(app: App, words: list[str]) -> tuple[Callable[..., object], BoundArguments]:
    """Parse a command line; without a target, use the one from the environment."""
    url = os.environ.get(SERVER_URL) if words and words[0] in _USING else None
    try:
        command, bound, _ = app.parse_args(words)
        if url and any(isinstance(word, str) and is_no_target(word) for word in bound.args[:1]):
            raise MissingArgumentError
    except MissingArgumentError:
        if not url:
            raise
        target = word_of_environment(url)
        command, bound, _ = app.parse_args([words[0], target, *words[1:]])
    return command, bound


def _instead(error: CycloptsError, words: Sequence[str]) -> str | None:
    command = words[0]
    if isinstance(error, UnknownCommandError) and (command.endswith(".py") or "://" in command):
        return f"say what to do with {command}, as in: trio-mcp tools {command}"
    if isinstance(error, UnknownOptionError) and command in ("call", "prompt", "bench"):
        return no_option(error.token.keyword or error.token.value)
    return None


def _shown(default: object) -> str | None:
    return None if default is None or default is False or default == () else str(default)
