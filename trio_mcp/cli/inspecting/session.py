"""An interactive session: what can be typed, and what it does."""

from __future__ import annotations

import shlex
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final

import trio
from attrs import frozen

from trio_mcp.cli.calling import call_tool, get_prompt, read_resource
from trio_mcp.cli.failures import FAILED, OK, Failure, Usage, explain, one_line
from trio_mcp.cli.inspecting.lines import Lines
from trio_mcp.cli.listing import listed, show_prompts, show_resources, show_tools
from trio_mcp.cli.schemas import properties_of
from trio_mcp.cli.session import Session
from trio_mcp.errors import ClientError, NotConnected
from trio_mcp.registry.changes import KINDS, Change, ListChanged
from trio_mcp.transports.background import background_task
from trio_mcp.wire.errors import McpError, ResourceNotFound

_ALL: Final = "all"


@frozen
class Command:
    """Something that can be typed."""

    usage: str
    help: str
    run: Callable[[Inspection, Sequence[str]], Awaitable[object]]


class Inspection:
    """A session with one server.

    Args:
        session: The connection.
        nursery: Where subscriptions live.
    """

    def __init__(self, session: Session, nursery: trio.Nursery) -> None:
        self.session: Final = session
        self.screen: Final = session.screen
        self._nursery = nursery
        self._running: trio.CancelScope | None = None
        self._subscriptions: dict[str, trio.CancelScope] = {}
        self._names: dict[str, list[str]] = {}
        self.over = False
        """Whether the person wants to leave."""
        self.failures = 0
        """How many commands failed."""

    async def run(self, lines: Lines) -> int:
        """Do what is typed, until that ends; return the exit status."""
        client = self.session.client
        scope = trio.CancelScope()

        async def watch() -> None:
            await client.over.wait()
            scope.cancel()

        await self._greet()
        async with background_task(watch):
            with scope:
                while not self.over:
                    line = await self._next(lines)
                    if line is None:
                        break
                    await self._do(line)
        if client.over.is_set():
            raise client.failure()
        return FAILED if self.failures else OK

    def interrupt(self) -> bool:
        """Stop what runs, if anything does; return whether there was something."""
        if self._running is None:
            return False
        self._running.cancel()
        return True

    def suggestions(self, words: list[str]) -> Iterable[str]:
        """What may follow at Tab."""
        if len(words) == 1:
            return [*COMMANDS]
        if words[0] == "call" and len(words) > 2:
            tool = self.session.client.tools.get(words[1])
            return [f"{each}=" for each in properties_of(tool.input_schema)] if tool else []
        return self._names.get(words[0], [])

    # -- the loop -------------------------------------------------------------------------

    async def _greet(self) -> None:
        client = self.session.client
        info = client.server_info
        who = f"{info.name} {info.version}" if info is not None else "a server without a name"
        resources = await listed(self.session, "resources/list", "resources")
        prompts = await listed(self.session, "prompts/list", "prompts")
        uris = [str(each.get("uri")) for each in resources]
        self._names = {
            "call": [*client.tools],
            "list": ["tools", "resources", "prompts"],
            "read": uris,
            "prompt": [str(each.get("name")) for each in prompts],
            "subscribe": [*KINDS, *uris],
            "unsubscribe": [_ALL, *KINDS, *uris],
        }
        self.screen.note(f"Connected to {who}, which speaks {client.revision}.", "bold")
        if client.instructions:
            self.screen.note(client.instructions)
        offers = {"tool": client.tools, "resource": resources, "prompt": prompts}
        counts = [
            f"{len(each)} {kind if len(each) == 1 else kind + 's'}" for kind, each in offers.items()
        ]
        self.screen.note(f"{', '.join(counts)}. Type help to see what you can do.")

    async def _next(self, lines: Lines) -> str | None:
        asker = self.session.asker
        async with asker.turn:
            asker.occupied = True
            try:
                return await lines.next()
            finally:
                asker.occupied = False

    async def _do(self, line: str) -> None:
        name, _, rest = line.strip().partition(" ")
        if not name:
            return
        try:
            command = COMMANDS.get(name)
            if command is None:
                raise Usage(f"there is no command {name!r}; help shows what there is")
            words = _split(rest)
            with trio.CancelScope() as self._running:
                self.failures += bool(await command.run(self, words))
            if self._running.cancelled_caught:
                self.screen.note("Cancelled.", "yellow")
        except NotConnected:
            raise
        except (Failure, ClientError, McpError, ResourceNotFound, OSError) as error:
            self.failures += 1
            self.screen.note(one_line(explain(error)), "red")
        finally:
            self._running = None

    # -- subscriptions --------------------------------------------------------------------

    async def subscribe(self, words: Sequence[str]) -> None:
        """Hear of changes from now on."""
        if not words:
            raise Usage("subscribe takes URIs, or: tools, resources, prompts")
        for each in words:
            if each not in self._subscriptions:
                await self._nursery.start(self._follow, each)

    async def unsubscribe(self, words: Sequence[str]) -> None:
        """Hear of them no more."""
        for each in list(self._subscriptions) if list(words) == [_ALL] else words:
            scope = self._subscriptions.get(each)
            if scope is None:
                raise Usage(f"there is no subscription to {each!r}")
            scope.cancel()
        await trio.lowlevel.checkpoint()

    async def _follow(
        self, what: str, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Tell of the changes of one list or resource, until it is cancelled."""
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
                        self.screen.note(f"Changed: {_in_words(change)}", "yellow")
                        if change == ListChanged("tools"):
                            await self.session.client.refresh_tools()
                except (ClientError, McpError) as error:
                    if not isinstance(error, NotConnected):
                        self.screen.note(one_line(explain(error)), "red")
                finally:
                    del self._subscriptions[what]
        self.screen.note(f"No longer subscribed to {what}.")


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


def _one(words: Sequence[str], usage: str) -> str:
    if len(words) != 1:
        raise Usage(f"usage: {usage}")
    return words[0]


# -- the commands ------------------------------------------------------------------------


async def _help(inspection: Inspection, words: Sequence[str]) -> None:
    rows = [(each.usage, each.help) for each in COMMANDS.values()]
    inspection.screen.table(("Command", "What it does"), rows)


async def _list(inspection: Inspection, words: Sequence[str]) -> None:
    show = {"tools": show_tools, "resources": show_resources, "prompts": show_prompts}
    if "tools" in inspection.session.client.capabilities:
        await inspection.session.client.refresh_tools()
    for each in words or show:
        if each not in show:
            raise Usage("usage: list [tools|resources|prompts]")
        await show[each](inspection.session)


async def _tool(inspection: Inspection, words: Sequence[str]) -> None:
    await show_tools(inspection.session, _one(words, "tool NAME"))


async def _call(inspection: Inspection, words: Sequence[str]) -> int:
    if not words:
        raise Usage("usage: call NAME [KEY=VALUE …|JSON]")
    return await call_tool(inspection.session, words[0], words[1:])


async def _read(inspection: Inspection, words: Sequence[str]) -> None:
    await read_resource(inspection.session, _one(words, "read URI"), end_line=True)


async def _prompt(inspection: Inspection, words: Sequence[str]) -> None:
    if not words:
        raise Usage("usage: prompt NAME [KEY=VALUE …]")
    await get_prompt(inspection.session, words[0], words[1:])


async def _ping(inspection: Inspection, words: Sequence[str]) -> None:
    began = trio.current_time()
    await inspection.session.client.ping()
    inspection.screen.text(f"{(trio.current_time() - began) * 1000:.1f} ms")


async def _quit(inspection: Inspection, words: Sequence[str]) -> None:
    inspection.over = True


COMMANDS: Final[dict[str, Command]] = {
    "help": Command("help", "Show this.", _help),
    "list": Command("list [tools|resources|prompts]", "Show what the server offers.", _list),
    "tool": Command("tool NAME", "Show all that is known of a tool.", _tool),
    "call": Command("call NAME [KEY=VALUE …|JSON]", "Call a tool.", _call),
    "read": Command("read URI", "Read a resource.", _read),
    "prompt": Command("prompt NAME [KEY=VALUE …]", "Have a prompt written.", _prompt),
    "subscribe": Command(
        "subscribe URI …|tools|resources|prompts", "Hear of changes.", Inspection.subscribe
    ),
    "unsubscribe": Command(
        "unsubscribe URI …|all", "Hear of them no more.", Inspection.unsubscribe
    ),
    "ping": Command("ping", "See how long an answer takes.", _ping),
    "quit": Command("quit", "Leave; so does Ctrl-D.", _quit),
}
