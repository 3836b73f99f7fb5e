"""What extensions get of requests and notifications, and what they tell clients of."""

from __future__ import annotations

import logging
from typing import Any

import trio
from attrs import frozen

from trio_mcp.peer.inbound import InboundRequest
from trio_mcp.registry.changes import Listener, Render
from trio_mcp.registry.context import Context
from trio_mcp.registry.extension import ExtensionRequest
from trio_mcp.registry.topic import Topic
from trio_mcp.server.request import RequestContext, check_subscriptions
from trio_mcp.wire.extensions import declared_settings
from trio_mcp.wire.jsonrpc import Json

logger = logging.getLogger("trio_mcp")


def request_for(
    identifier: str,
    context: RequestContext,
    talk: Context,
    option: Any = None,
    answers: dict[str, Json] | None = None,
) -> ExtensionRequest:
    """Make what an extension gets of a request."""
    server, session, caller = context.server, context.session, context.caller
    serving, watcher = server.extensions.get(identifier), None
    if session.listener is not None and not caller.revision.modern:
        watcher = SessionWatcher(identifier, context, session.listener)
    return ExtensionRequest(
        method=context.method,
        params=context.params,
        revision=caller.revision.name,
        capabilities=caller.capabilities,
        client=talk.client,
        principal=session.principal,
        authorization=context.authorization,
        identifier=identifier,
        settings=declared_settings(caller.capabilities, identifier),
        option=option,
        state=None if serving is None else serving.extension_state,
        registry_state=server.state,
        request_id=talk.request_id,
        connection_id=session.connection_id,
        answers=answers or {},
        watcher=watcher,
        context=talk,
    )


@frozen
class SessionWatcher:
    """Has a legacy client told of what an extension tells of (a `Watcher`)."""

    identifier: str
    context: RequestContext
    listener: Listener

    def watch(self, key: str, value: str | None) -> None:
        """Begin to.

        Raises:
            McpError: It watches too many things already.
        """
        topic, topics = Topic(key, value), self.listener.topics
        if topic not in topics:
            check_subscriptions(self.context, len(topics))
        self.listener.watch_topic(topic, renderer(self.identifier, self.context, key))

    def unwatch(self, key: str, value: str | None) -> None:
        self.listener.unwatch_topic(Topic(key, value))


# -- notifications --------------------------------------------------------------------------


def take_notification(context: RequestContext) -> None:
    """Let an extension take note of a client's notification, if the client has declared it."""
    extensions = context.server.catalogue.extensions
    method = context.method
    if extensions is None or method not in extensions.notifications:
        return
    added, take = extensions.notifications[method]
    request = request_for(added.extension.identifier, context, context.make_context(method))
    if request.settings is None or not added.is_in(context.revision):
        return
    try:
        take(request)
    except Exception:  # an extension's mistake must not end the connection
        logger.exception("Extension %s failed on %s", added.extension.identifier, method)


# -- subscriptions --------------------------------------------------------------------------


def renderer(
    identifier: str, context: RequestContext, key: str, listen: InboundRequest | None = None
) -> Render:
    """Make what makes the notifications that tell a client of something.

    Args:
        identifier: The extension.
        context: The request that asked for it.
        key: What it asked for.
        listen: The same request, if it stays open for the notifications.

    Raises:
        KeyError: The extension tells of nothing under that key.
    """
    extensions = context.server.catalogue.extensions
    assert extensions is not None
    added, subscription = extensions.subscriptions[key]
    if added.extension.identifier != identifier:
        raise KeyError(key)
    request = request_for(identifier, context, context.make_context(context.method))
    seconds = context.server.limits.tool_timeout

    async def render(value: str | None) -> tuple[str, dict[str, Json]] | None:
        with trio.move_on_after(seconds) as scope:
            if listen is not None:
                listen.scope = scope  # who cancels the subscription need not wait for this
            params = await subscription.params(request, value)
            return None if params is None else (subscription.notification, dict(params))
        if listen is None or listen.cause is None:
            logger.error("Extension %s has not told of %s in time", identifier, key)
        return None

    return render
