"""A connection to a target, and the person who uses it."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from inspect import Signature, signature
from typing import Any, Final

import trio
from attrs import define, field

from trio_mcp import Client, HttpOptions, RemoteTool, connect
from trio_mcp.cli.failures import OK, Failure, missing, new_part, one_line
from trio_mcp.cli.forms import terminal_handlers
from trio_mcp.cli.options import NO_OPTIONS, AsJson, ConnectionOptions, TargetWord
from trio_mcp.cli.prompter import ProgressBar, Prompter
from trio_mcp.cli.running import run_async
from trio_mcp.cli.screen import Screen
from trio_mcp.cli.target import Target, parse_target
from trio_mcp.errors import PipeClosed, ServerExited
from trio_mcp.extensions.tasks import TasksClient
from trio_mcp.wire.limits import Limits

_LAG: Final = 0.05
"""Seconds by which stderr may arrive later than the answer that it is about."""
_REASON: Final = re.compile(
    r"^ *Traceback \(most recent|^\s+at .*:\d+|: its result cannot be sent: ", re.MULTILINE
)
"""How tracebacks begin in Python, and are indented in JavaScript and Java; and what our log has."""
_THINKING: Final = 3600.0
"""Seconds that a person may think about a question."""


@define
class Session:
    """A connection to a server, and the person who uses it."""

    client: Client
    screen: Screen
    prompter: Prompter
    timeout: float
    verbose: bool
    tasks: TasksClient
    _stderr: str = field(default="", init=False)

    def tool(self, name: str) -> RemoteTool:
        tools = self.client.tools
        if name not in tools:
            raise Failure(missing("tool", name, list(tools)))
        return tools[name]

    def forget_stderr(self) -> None:
        self._stderr = self.client.stderr()

    async def show_reason(self) -> None:
        await trio.sleep(_LAG)
        said = new_part(self.client.stderr(), self._stderr)
        if not self.verbose and _REASON.search(said):
            self.screen.quote(said)

    @contextmanager
    def blaming_new_stderr(self) -> Iterator[None]:
        """Leave only new stderr in the errors of a block."""
        self.forget_stderr()
        try:
            yield
        except (ServerExited, PipeClosed) as error:
            error.stderr = new_part(error.stderr, self._stderr)
            raise

    @contextmanager
    def progress(self) -> Iterator[ProgressBar]:
        """Show a progress bar for the length of a block; questions push it aside."""
        bar = ProgressBar(self.screen)
        before, self.prompter.paused = self.prompter.paused, bar.paused
        try:
            yield bar
        finally:
            self.prompter.paused = before
            bar.close()


@asynccontextmanager
async def connected(
    target: Target,
    options: ConnectionOptions,
    screen: Screen,
    *,
    may_ask: bool = True,
    http: HttpOptions | None = None,
) -> AsyncIterator[Session]:
    """Connect to a target for the length of a block."""
    prompter, tasks = Prompter(screen), TasksClient()
    connection = connect(
        target.url or target.process or (),
        era=options.era,
        handlers=terminal_handlers(prompter, options.root) if may_ask else None,
        process_options=options.process_options(),
        http=options.http_options(target, screen) if http is None else http,
        connect_timeout=options.timeout,
        tool_timeout=options.timeout,
        request_timeout=options.timeout,
        max_timeout=options.timeout,
        limits=Limits(question_timeout=_THINKING),
        extensions=[tasks],
        on_log=screen.log,
        log_level=options.log_level,
    )
    with _plain_log():
        async with connection as client:
            session = Session(client, screen, prompter, options.timeout, options.verbose, tasks)
            with session.blaming_new_stderr():
                yield session


def command(work: Callable[..., Awaitable[int | None]]) -> Callable[..., int]:
    """Make a command of a function that uses a server.

    The function takes a session, the words after the target, and options by keyword; it returns the
    exit status, or `None` for success. Its docstring is the command's help.
    """

    def run(
        target: TargetWord,
        /,
        *words: str,
        as_json: AsJson = False,
        options: ConnectionOptions = NO_OPTIONS,
        **more: Any,
    ) -> int:
        place = parse_target(target)

        async def main() -> int:
            async with connected(place, options, Screen(as_json=as_json)) as session:
                return await work(session, *words, **more) or OK

        return run_async(main)

    ours = signature(run, eval_str=True).parameters
    _, *theirs = signature(work, eval_str=True).parameters.values()
    described: Any = run
    described.__signature__ = Signature([ours["target"], *theirs, ours["as_json"], ours["options"]])
    described.__annotations__ = {}  # the parser would believe them rather than the signature
    described.__doc__ = work.__doc__
    return run


class _Brief(logging.Formatter):
    """Formats a message as one line, without traceback, but with a server's stray output."""

    def format(self, record: logging.LogRecord) -> str:
        stray: bytes | None = getattr(record, "stray_output", None)
        told = "" if stray is None else f": {stray.decode('utf-8', 'replace')}"
        return f"trio-mcp: {one_line(record.getMessage() + told)}"


@contextmanager
def _plain_log() -> Iterator[None]:
    """Show the library's warnings on stderr as briefly as errors, for the length of a block."""
    logger = logging.getLogger("trio_mcp")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Brief())
    before = logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield
    finally:
        logger.propagate = before
        logger.removeHandler(handler)
