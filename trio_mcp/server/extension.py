"""Extensions on the server's side: the class to derive from, and what it works with."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from types import MappingProxyType
from typing import Any, Final

import trio

from trio_mcp.background import background_nursery
from trio_mcp.peer.runner import Runner
from trio_mcp.public import public_in
from trio_mcp.registry import Registry, catalogue_of
from trio_mcp.registry.changes import Topic
from trio_mcp.registry.extension import (
    ExtensionMethod,
    ExtensionRequest,
    ExtensionSubscription,
)
from trio_mcp.registry.extensions import Extensions
from trio_mcp.registry.kinds import Offered
from trio_mcp.registry.lifespan import Opened, opened
from trio_mcp.server.background import CallChannel, answer_in_background
from trio_mcp.server.server import Server
from trio_mcp.store.shared import shared_store
from trio_mcp.wire.jsonrpc import Json
from trio_mcp.wire.limits import Limits
from trio_mcp.wire.revisions import Era

Proceed = Callable[[], Awaitable[dict[str, Json]]]
"""Runs what an extension was put around, and returns the members of the result."""

TakeNotification = Callable[[ExtensionRequest], object]


@public_in("trio_mcp.extending")
class ExtensionServing:
    """What an extension works with while its registry is served. Its lifespan gets one."""

    def __init__(self, server: Server, opened: Opened, state: Any, nursery: trio.Nursery) -> None:
        self.registry: Final = server.registry
        """What is served."""
        self.limits: Final = server.limits
        """The bounds to keep."""
        self.state: Final = state
        """What the lifespan of the registry yielded that has the extension."""
        self.nursery: Final = nursery
        """Where the extension runs what goes on in the background. It is cancelled when serving has
        ended and the extension's lifespan has been left."""
        self.extension_state: Any = None
        """What the extension's own lifespan yielded."""
        self.store: Final = shared_store()
        """What the instances of the server share; `None` if it shares nothing."""
        self._opened = opened
        self._server = server
        self._runner = Runner(server.limits.cancel_timeout)

    async def call(
        self,
        request: ExtensionRequest,
        *,
        channel: CallChannel | None = None,
        timeout: float | None = None,
    ) -> dict[str, Json]:
        """Have a request answered, in the task that calls this, with no client connected.

        It goes the way that it would go if its sender had sent it, through the same checks and the
        same limits. Only the extensions that come after this one run something around it.

        Args:
            request: The request, such as the one that `ServerExtension.around` got; or one that was
                put together from what was kept of it.
            channel: Takes what the handler reports, logs and asks. Without one, it is dropped,
                and it cannot ask.
            timeout: Seconds that it may take, instead of the usual limit; `math.inf` for any time.
                What it waits for answers does not count.

        Returns:
            The members of the result.

        Raises:
            McpError: The request would have been answered with an error.

        It waits until the lifespans of all extensions are open. So do not await it in a lifespan
        before that yields; start a task in `nursery`. If cancelled, the handler is cancelled.
        """
        if not self._opened.complete.is_set():  # or else it would take a turn of the scheduler
            await self._opened.complete.wait()
        return await answer_in_background(self._server, self._runner, request, channel, timeout)

    def count(self, name: str, **labels: str) -> None:
        """Count something for `/metrics`, where it is `mcp_NAME_total`.

        Args:
            name: What, in lower case, such as `tasks`.
            labels: Of which kind. There must be few values of each.
        """
        self._opened.counters.add(name, **labels)

    def changed(self, key: str, value: str | None = None) -> None:
        """Tell clients that asked for it that something has changed. May be called in any thread.

        Args:
            key: The subscription's.
            value: Which one of those that the filter may list; `None` where it lists nothing.
        """
        self._server.catalogue.changes.topic_changed(Topic(key, value))

    def is_watched(self, key: str, value: str | None = None) -> bool:
        """Whether a client of this server has asked for it, with the arguments of `changed`."""
        return Topic(key, value) in self._server.catalogue.changes.watchers


@public_in("trio_mcp.extending")
class ServerExtension:
    """An extension of the protocol, on the server's side (SEP-2133). Derive from it.

    What is data stands in attributes; override the methods that you need. One object may serve one
    registry or several. Give it to `Registry(extensions=[...])`.

    Nothing of it is sent to a client that does not declare the extension, except what the server
    declares, and the `_meta` in descriptions.

    Example:
        >>> class Greetings(ServerExtension):
        ...     identifier = "com.example/greetings"
        ...     settings = {"languages": ["en", "fr"]}
        ...
        ...     def methods(self):
        ...         row = Method(name="com.example/greet", target="name", repeatable=True)
        ...         return [ExtensionMethod(row=row, handler=self.greet)]
        ...
        ...     async def greet(self, request: ExtensionRequest) -> dict[str, object]:
        ...         return {"greeting": f"Hello, {request.params['name']}!"}
        >>> registry = Registry("polite", extensions=[Greetings()])
    """

    identifier: str = ""
    """Its name, with a prefix: `com.example/greetings`. Another version that does not get on with
    this one needs another name."""

    settings: Mapping[str, Json] = MappingProxyType({})
    """What the server declares of it under `capabilities.extensions`."""

    era: Era | None = None
    """The only era in which there is such a thing; `None` for both."""

    wraps: Collection[str] = ()
    """The methods that `around` is called for: some of `tools/call`, `resources/read`,
    `prompts/get` and `completion/complete`."""

    mountable: bool = True
    """Whether it serves calls of any registry: of two in one registry, one serves for both. `False`
    if what each of them serves is its own, and is named by URIs that no prefix changes."""
    shares: bool = False
    """Whether it keeps in `ExtensionServing.store` what clients may meet again at another instance.
    Then it is not served by several of them without that store."""

    result_types: Collection[str] = ()
    """The values of `resultType` that `around` may answer with."""

    sends: Collection[str] = ()
    """The notifications that it sends with `Context.notify`."""

    def methods(self) -> Sequence[ExtensionMethod]:
        """Return the methods that it adds. Asked for once, when it is added."""
        return ()

    def notifications(self) -> Mapping[str, TakeNotification]:
        """Return, by method, who takes note of the notifications of clients. Asked for once.

        The functions must not wait; they may start something in `ExtensionServing.nursery`.
        """
        return {}

    def subscriptions(self) -> Sequence[ExtensionSubscription]:
        """Return what clients can subscribe to. Called once."""
        return ()

    def check_option(self, kind: Offered, name: str, value: Any) -> Any:
        """Check the value in `@registry.tool(extensions={identifier: value})`, and the like.

        Args:
            kind: `tool`, `resource`, `resource template` or `prompt`.
            name: Its name, or its URI.
            value: The value.

        Returns:
            What the extension finds in `ExtensionRequest.option`.

        Raises:
            ValueError: It is not one; the text says what it should be.
        """
        raise ValueError("this extension has no options")

    def meta_of(self, kind: Offered, name: str, option: Any) -> Mapping[str, Json]:
        """Return what stands in the `_meta` of its description, which all clients see.

        Args:
            kind: As in `check_option`.
            name: Likewise.
            option: What that returned.
        """
        return {}

    def added_to(self, registry: Registry) -> None:
        """Register what the extension brings: tools, resources, prompts.

        Args:
            registry: It was just added to this one.
        """

    async def around(self, request: ExtensionRequest, proceed: Proceed) -> Mapping[str, Json]:
        """Answer a request of one of the methods in `wraps`.

        It is called in the task and within the time limit of the request, after its arguments were
        checked, whether or not the client has declared the extension. `Registry.call` does without.

        Args:
            request: The request.
            proceed: Runs the handler, or the next extension. Returns the members of the usual
                result; raises what the handler raises.

        Returns:
            The members of the result: those of `proceed`, more or less of them, or others. With a
            `resultType` of this extension, if the client has declared it.

        Raises:
            McpError: That error is the answer.
        """
        return await proceed()

    @asynccontextmanager
    async def lifespan(self, serving: ExtensionServing) -> AsyncIterator[Any]:
        """Open what it needs, and yield what it finds in `ExtensionRequest.state`.

        It is entered after the registry's own lifespan, and left before that is. There are
        `Limits.startup_timeout` seconds to enter it, and `Limits.lifespan_timeout` to leave it;
        then it is cancelled.

        Args:
            serving: What to work with.
        """
        yield None

    def opened(
        self, registry: Registry, open_: Opened, limits: Limits
    ) -> AbstractAsyncContextManager[ExtensionServing]:
        """Open the lifespan for a registry that is being served."""
        way = partial(self._opened, registry, open_, limits)
        return opened(f"extension {self.identifier}", way, limits)

    @asynccontextmanager
    async def _opened(
        self, registry: Registry, open_: Opened, limits: Limits
    ) -> AsyncIterator[ExtensionServing]:
        extensions = catalogue_of(registry).extensions
        assert extensions is not None
        inner = _those_inside(extensions, self)
        async with background_nursery() as nursery:
            server = Server(registry, limits, open_, wrapping=inner, middleware=())
            state = server.state_of(extensions.find(self.identifier).owner)
            serving = ExtensionServing(server, open_, state, nursery)
            async with self.lifespan(serving) as serving.extension_state:
                yield serving


def _those_inside(extensions: Extensions, extension: ServerExtension) -> Mapping[str, list[Any]]:
    """By method, the extensions that come after one."""
    order = [added.identifier for added in extensions]
    after = frozenset(order[order.index(extension.identifier) + 1 :])
    return {
        method: [wrapper for wrapper in around if wrapper.identifier in after]
        for method, around in extensions.wrapping.items()
    }
