"""An interactive session, and its commands."""

from __future__ import annotations

import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from inspect import signature
from typing import Final

import trio
from attrs import frozen

from trio_mcp import Client
from trio_mcp.cli.arguments import parse_texts
from trio_mcp.cli.calling import call_tool, get_prompt, read_resource
from trio_mcp.cli.failures import FAILED, OK, Failure, Usage, counted, explain, missing, one_line
from trio_mcp.cli.inspecting.lines import next_piped, typed_lines
from trio_mcp.cli.listing import (
    find_prompt,
    names,
    prompt_field,
    show_prompts,
    show_resources,
    show_tools,
)
from trio_mcp.cli.options import ConnectionOptions
from trio_mcp.cli.schemas import field_of
from trio_mcp.cli.screen import Screen
from trio_mcp.cli.session import Session, connected
from trio_mcp.cli.target import Target
from trio_mcp.client.state import Disconnected
from trio_mcp.errors import ClientError, NotConnected
from trio_mcp.loggers import harmless
from trio_mcp.registry.changes import KINDS, Change, ListChanged
from trio_mcp.wire.errors import METHOD_NOT_FOUND, McpError
from trio_mcp.wire.offers import Completion

_ALL: Final = "all"
_TAB_TIMEOUT: Final = 1.0
"""Seconds to wait for suggestions, while the line cannot be edited."""
_LISTS: Final[dict[str, Callable[[Session], Awaitable[None]]]] = {
    "tools": show_tools,
    "resources": show_resources,
    "prompts": show_prompts,
}


@frozen
class Command:
    """A command that can be typed."""

    usage: str
    help: str
    run: Callable[..., Awaitable[object]]
    """Takes the inspection, and the words after the name."""


class Inspection:
    """An interactive session, which starts a server again that has exited."""

    def __init__(self, target: Target, options: ConnectionOptions, screen: Screen) -> None:
        self.screen: Final = screen
        self._connect = partial(connected, target, options, screen)
        can_ask = screen.can_ask
        self._next_line = typed_lines(screen, self.suggestions) if can_ask else next_piped
        self._session: Session | None = None
        self._nursery: trio.Nursery | None = None
        self._running: trio.CancelScope | None = None
        self._subscriptions: dict[str, trio.CancelScope] = {}
        self.names: dict[str, list[str]] = {}
        """By command, the choices for its first word."""
        self.over = False
        """Whether the person wants to leave."""
        self._failures = 0

    @property
    def session(self) -> Session:
        assert self._session is not None
        return self._session

    async def run(self) -> int:
        """Run typed commands until the end of the input; return the exit status."""
        line: str | None = ""
        while line is not None:
            try:
                await self._use_connection(line)
                break
            except (Failure, ClientError, OSError) as error:
                if not self.names:  # there never was a connection
                    raise
                self._tell(error)
            self.screen.note("The next command connects again.")
            line = await self._next_line()
            if line is not None and line.strip() == "quit":
                break
        return FAILED if self._failures and not self.screen.can_ask else OK

    def interrupt(self) -> bool:
        """Cancel the running command; return whether there was one."""
        if self._running is None:
            return False
        self._running.cancel()
        return True

    async def _use_connection(self, line: str) -> None:
        """Connect and run commands, beginning with a line that was typed before."""
        async with self._connect() as session:
            client, self._session = session.client, session
            failure: Exception | None = None
            async with trio.open_nursery() as self._nursery:
                scope = trio.CancelScope()
                self._nursery.start_soon(_cancel_at_the_end, client, scope)
                try:
                    with scope:
                        await self._greet()
                        await self._do_all(line)
                except Exception as error:  # raised below, outside of any exception group
                    failure = error
                self._session = None
                self._nursery.cancel_scope.cancel()
            if isinstance(client.state, Disconnected) and client.state.error is not None:
                raise client.state.error
            if failure is not None:
                raise failure

    async def _do_all(self, line: str | None) -> None:
        prompter = self.session.prompter
        while line is not None:
            await self._do(line)
            if self.over:
                break
            async with prompter.turn:
                prompter.occupied = True
                try:
                    line = await self._next_line()
                finally:
                    prompter.occupied = False

    async def _do(self, line: str) -> None:
        name, _, rest = line.strip().partition(" ")
        if not name:
            return
        self.session.forget_stderr()
        try:
            command = COMMANDS.get(name)
            if command is None:
                raise Usage(f"{missing('command', name, list(COMMANDS), of='inspect')} (see help)")
            with trio.CancelScope() as self._running:
                self._failures += bool(await _started(self, command, _split(rest)))
            if self._running.cancelled_caught:
                self.screen.note("Cancelled.", "yellow")
        except NotConnected:
            raise
        except Exception as error:  # whatever a server or a value does wrong, the session goes on
            self._tell(error)
        finally:
            self._running = None

    def _tell(self, error: Exception) -> None:
        self._failures += 1
        self.screen.note(f"trio-mcp: {one_line(explain(error))}", "red")

    async def _greet(self) -> None:
        client = self.session.client
        info = client.server_info
        who = f"{info.name} {info.version}" if info is not None else "a server without a name"
        self.screen.note(f"Connected to {harmless(who)}, which speaks {client.revision}.", "bold")
        if client.instructions and not self.names:
            self.screen.quote(client.instructions)
        found = {
            "tool": [*client.tools],
            "resource": await names(self.session, "resources/list", "resources", "uri"),
            "template": await names(
                self.session, "resources/templates/list", "resourceTemplates", "uriTemplate"
            ),
            "prompt": await names(self.session, "prompts/list", "prompts"),
        }
        counts = [counted(len(v), noun) for noun, v in found.items() if v or noun != "template"]
        self.screen.note(f"{', '.join(counts)}. Type help to see what you can do.")
        uris = found["resource"]
        self.names = {
            "call": found["tool"],
            "tool": found["tool"],
            "list": [*_LISTS],
            "read": [*uris, *found["template"]],
            "prompt": found["prompt"],
            "complete": [*found["prompt"], *found["template"]],
            "subscribe": [*KINDS, *uris],
            "unsubscribe": [_ALL, *KINDS, *uris],
        }

    # -- completion -----------------------------------------------------------------------

    async def suggestions(self, words: Sequence[str]) -> Sequence[str]:
        command, *rest = words
        if not rest:
            return [*COMMANDS]
        name, *given = rest
        if not given or self._session is None:
            return self.names.get(command, [])
        argument, equals, value = given[-1].partition("=")
        if command == "call" and name in self.session.client.tools:
            fields = field_of(self.session.client.tools[name].input_schema).properties
            if not equals:
                return [f"{field}=" for field in fields]
            known = fields[argument].suggestions if argument in fields else []
            return [f"{argument}={value}" for value in known]
        if command in ("prompt", "complete") and equals:
            chosen = dict(pair.split("=", 1) for pair in given[:-1] if "=" in pair)
            with trio.move_on_after(_TAB_TIMEOUT), suppress(ClientError, McpError, Failure):
                completion = await self.complete(name, argument, value, chosen)
                return [f"{argument}={value}" for value in completion.values]
        elif command in ("prompt", "complete") and name in self.names["prompt"]:
            prompt = await find_prompt(self.session, name)
            return [f"{name}=" for name in prompt_field(prompt).properties]
        return []

    async def complete(
        self, name: str, argument: str, value: str, chosen: Mapping[str, str]
    ) -> Completion:
        if name not in self.names["complete"]:
            raise Failure(missing("prompt or template", name, self.names["complete"]))
        is_prompt = name in self.names["prompt"]
        complete = partial(self.session.client.complete, argument, value, chosen=chosen)
        try:
            return await (complete(prompt=name) if is_prompt else complete(resource=name))
        except McpError as error:
            if error.code != METHOD_NOT_FOUND:
                raise
            raise Failure("the server does not suggest values") from None

    # -- subscriptions --------------------------------------------------------------------

    async def subscribe(self, *words: str) -> None:
        assert self._nursery is not None
        for word in words:
            if word not in self._subscriptions:
                await self._nursery.start(self._follow, word)

    async def unsubscribe(self, *words: str) -> None:
        for word in list(self._subscriptions) if list(words) == [_ALL] else words:
            scope = self._subscriptions.get(word)
            if scope is None:
                raise Usage(f"there is no subscription to {word!r}")
            scope.cancel()
        await trio.lowlevel.checkpoint()

    async def _follow(
        self, what: str, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        lists = [kind for kind in KINDS if kind == what]
        uris = [] if lists else [what]
        with trio.CancelScope() as scope:
            async with self.session.client.subscribe(resources=uris, lists=lists) as changes:
                if not changes.kinds and not changes.uris:
                    raise Failure(f"the server does not tell of changes of {what!r}")
                self._subscriptions[what] = scope
                self.screen.note(f"Subscribed to {what}.")
                task_status.started()
                try:
                    async for change in changes:
                        self.screen.note(f"Changed: {harmless(_in_words(change))}", "yellow")
                        if change == ListChanged("tools"):
                            await self.session.client.refresh_tools()
                except (ClientError, McpError) as error:
                    if not isinstance(error, NotConnected):
                        self.screen.note(one_line(explain(error)), "red")
                finally:
                    del self._subscriptions[what]
        self.screen.note(f"No longer subscribed to {what}.")


async def _cancel_at_the_end(client: Client, scope: trio.CancelScope) -> None:
    async for _ in client.states():
        pass
    scope.cancel()


def _in_words(change: Change) -> str:
    return f"the list of {change.kind}" if isinstance(change, ListChanged) else change.uri


def _split(rest: str) -> list[str]:
    """Split what follows a command as a shell does; JSON at its end stays whole."""
    before, brace, after = rest.partition(" {")
    if rest.lstrip().startswith("{"):
        return [rest.strip()]
    try:
        words = shlex.split(before)
    except ValueError as error:
        raise Usage(f"this cannot be split into words: {error}") from None
    return [*words, f"{{{after}".strip()] if brace else words


def _started(inspection: Inspection, command: Command, words: Sequence[str]) -> Awaitable[object]:
    try:
        bound = signature(command.run).bind(inspection, *words)
    except TypeError:
        raise Usage(f"usage: {command.usage}") from None
    return command.run(*bound.args)


# -- the commands ------------------------------------------------------------------------


async def _help(inspection: Inspection) -> None:
    rows = [(command.usage, command.help) for command in COMMANDS.values()]
    inspection.screen.table(("Command", "What it does"), rows)


async def _list(inspection: Inspection, *kinds: str) -> None:
    if "tools" in inspection.session.client.capabilities:
        await inspection.session.client.refresh_tools()
    for kind in kinds or _LISTS:
        if kind not in _LISTS:
            raise Usage(f"usage: {COMMANDS['list'].usage}")
        await _LISTS[kind](inspection.session)


async def _complete(inspection: Inspection, name: str, pair: str, *pairs: str) -> None:
    (argument, value), *others = parse_texts([pair, *pairs]).items()
    found = await inspection.complete(name, argument, value, dict(others))
    for value in found.values:
        inspection.screen.text(value)
    if found.has_more or not found.values:
        inspection.screen.note("There are more." if found.has_more else "There are none.")


async def _ping(inspection: Inspection) -> None:
    began = trio.current_time()
    await inspection.session.client.ping()
    inspection.screen.text(f"{(trio.current_time() - began) * 1000:.1f} ms")


async def _quit(inspection: Inspection) -> None:
    inspection.over = True


COMMANDS: Final[dict[str, Command]] = {
    "help": Command("help", "Show this.", _help),
    "list": Command("list [tools|resources|prompts]", "Show what the server offers.", _list),
    "tool": Command(
        "tool NAME",
        "Show all that is known of a tool.",
        lambda self, name: show_tools(self.session, name),
    ),
    "call": Command(
        "call NAME [KEY=VALUE …|JSON]",
        "Call a tool.",
        lambda self, name, *words: call_tool(self.session, name, *words),
    ),
    "read": Command(
        "read URI",
        "Read a resource.",
        lambda self, uri: read_resource(self.session, uri),
    ),
    "prompt": Command(
        "prompt NAME [KEY=VALUE …]",
        "Get the messages of a prompt.",
        lambda self, name, *words: get_prompt(self.session, name, *words),
    ),
    "complete": Command(
        "complete PROMPT|TEMPLATE KEY=VALUE …",
        "See what the first value may become, where the others are chosen.",
        _complete,
    ),
    "subscribe": Command(
        "subscribe URI …|tools|resources|prompts",
        "Hear of changes.",
        lambda self, one, *more: self.subscribe(one, *more),
    ),
    "unsubscribe": Command(
        "unsubscribe URI …|all", "Hear of them no more.", Inspection.unsubscribe
    ),
    "ping": Command("ping", "See how long an answer takes.", _ping),
    "quit": Command("quit", "Leave; so does Ctrl-D.", _quit),
}
