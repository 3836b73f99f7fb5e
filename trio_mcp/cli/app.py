"""The commands of `trio-mcp`, and how they end."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from inspect import BoundArguments
from typing import Final

from cyclopts import App, CycloptsError, Group, MissingArgumentError, Parameter

from trio_mcp.cli.commands import GROUPS, TAKE_ENVIRONMENT
from trio_mcp.cli.failures import OK, USAGE, print_error, report
from trio_mcp.cli.target import SERVER_URL, is_no_target, join_command, word_of_environment
from trio_mcp.cli.usage import explain_usage, show_guide
from trio_mcp.version import __version__

_EPILOGUE: Final = (
    "A TARGET is FILE.py:REGISTRY, MODULE:REGISTRY, a URL, or any command, which then comes last, "
    "after --. Without one, commands that use a server take the one in MCP_SERVER_URL. "
    "Exit status: 0 all is well, 1 it failed, 2 the command line is wrong, 130 interrupted."
)


def make_app(*, overview: bool = True) -> App:
    app = App(
        name="trio-mcp",
        help="MCP servers and clients for Python: run servers, use them, examine them.",
        help_epilogue=_EPILOGUE,
        version=__version__,
        result_action="return_value",
        print_error=False,
        exit_on_error=False,
        end_of_options_delimiter="",
        default_parameter=Parameter(negative="", show_default=_shown),
        group_commands=Group("More", sort_key=len(GROUPS)),
    )
    for number, (title, commands) in enumerate(GROUPS.items()):
        group = Group(title, sort_key=number)
        for order, (name, (place, about, _)) in enumerate(commands.items()):
            where = f"trio_mcp.cli.{place}"
            said = about if overview else None
            app.command(where, name=name, group=group, sort_key=order, help=said, help_epilogue="")
    help = "Teach your shell to complete this command line."
    # A person's own files are for the person to edit.
    app.register_install_completion_command(add_to_startup=False, help=help)
    return app


def run(words: Sequence[str]) -> int:
    app = make_app(overview=bool(words) and words[0].startswith("-"))
    try:
        if not words:
            show_guide()
            return OK
        command, bound = _parsed(app, join_command(words))
        status = command(*bound.args, **bound.kwargs)
        sys.stdout.flush()
    except CycloptsError as error:
        print_error(explain_usage(error, words))
        return USAGE
    except (Exception, KeyboardInterrupt) as error:
        return report(error)
    return status if isinstance(status, int) else OK


def _parsed(app: App, words: list[str]) -> tuple[Callable[..., object], BoundArguments]:
    """Parse a command line; without a target, use the one from the environment."""
    url = os.environ.get(SERVER_URL) if words and words[0] in TAKE_ENVIRONMENT else None
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


def _shown(default: object) -> str | None:
    return None if default is None or default is False or default == () else str(default)
