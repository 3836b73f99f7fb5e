"""What extensions get of requests and notifications, and what they tell clients of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import trio
from attrs import frozen

from trio_mcp.loggers import logger_of
from trio_mcp.peer.inbound import InboundRequest
from trio_mcp.peer.outbound import notification_line
from trio_mcp.registry.changes import Listener, Render, Topic
from trio_mcp.registry.context import Context
from trio_mcp.registry.extension import Accept, ExtensionRequest
from trio_mcp.registry.extensions import Added
from trio_mcp.server.caller import invalid
from trio_mcp.server.request import (
    RequestContext,
    check_subscriptions,
    size_of,
    texts_of,
)
from trio_mcp.wire.errors import INTERNAL_ERROR, McpError
from trio_mcp.wire.extensions import declared_settings, missing
from trio_mcp.wire.jsonrpc import Json, json_type

logger = logger_of("trio_mcp")

Topics = dict[str, list[str] | None]
"""By the keys of subscriptions, what is listed under them; `None` where that is nothing."""


def request_for(
    identifier: str,
    context: RequestContext,
    conversation: Context,
    option: Any = None,
    answers: dict[str, Json] | None = None,
) -> ExtensionRequest:
    """Make what an extension gets of a request."""
    server, session, caller = context.server, context.session, context.caller
    serving, watcher = server.extensions.get(identifier), None
    extensions = server.catalogue.extensions
    assert extensions is not None
    if session.listener is not None and not caller.revision.modern:
        watcher = SessionWatcher(identifier, context, session.listener)
    return ExtensionRequest(
        method=context.method,
        params=context.params,
        revision=caller.revision.name,
        capabilities=caller.capabilities,
        client=conversation.client,
        principal=session.principal,
        authorization=context.authorization,
        identifier=identifier,
        settings=declared_settings(caller.capabilities, identifier),
        option=option,
        state=None if serving is None else serving.extension_state,
        registry_state=server.state_of(extensions.find(identifier).owner),
        request_id=conversation.request_id,
        connection_id=session.connection_id,
        answers=answers or {},
        watcher=watcher,
        context=conversation,
    )


@frozen
class SessionWatcher:
    """Has a legacy client told of what an extension tells of (a `TopicWatcher`)."""

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
            size = size_of((value, *(other.value for other in topics)))
            check_subscriptions(self.context, len(topics), size)
        self.listener.watch_topic(topic, renderer(self.identifier, self.context.lean({}), key))

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


def read_topics(context: RequestContext, wanted: Mapping[str, Json]) -> Topics:
    """Read what a filter wants of extensions.

    Raises:
        McpError: It is not what is offered there (`-32602`), or the client has not declared the
            extension (`-32021`).
    """
    extensions = context.server.catalogue.extensions
    assert extensions is not None
    limit, capabilities = context.server.limits.max_subscriptions, context.caller.capabilities
    found: Topics = {}
    for key, (added, subscription) in extensions.subscriptions.items():
        if key not in wanted or not added.is_in(context.revision):
            continue
        value, identifier = wanted[key], added.extension.identifier
        if declared_settings(capabilities, identifier) is None:
            raise missing(capabilities, identifier)
        if subscription.has_list:
            found[key] = texts_of(key, value, limit)
        elif not isinstance(value, bool):
            raise invalid(f'"{key}" must be a boolean, not {json_type(value)}')
        elif value:
            found[key] = None
    return found


async def watch_topics(
    context: RequestContext, topics: Topics, listener: Listener, request: InboundRequest
) -> Topics:
    """Have a listener told of what extensions agree to, and return that.

    Raises:
        McpError: An extension refuses, fails, or takes too long.
    """
    extensions = context.server.catalogue.extensions
    assert extensions is not None
    agreed: Topics = {}
    for key, values in topics.items():
        added, subscription = extensions.subscriptions[key]
        render = renderer(added.extension.identifier, context, key, request)
        # Before it is asked what may be sent: what changes meanwhile must not be missed.
        for value in [None] if values is None else values:
            listener.watch_topic(Topic(key, value), render)
        agreed[key] = values
        if values is not None and subscription.accept is not None:
            accepted = await _accepted(subscription.accept, added, context, values, request)
            agreed[key] = [value for value in values if value in accepted]
            for value in set(values) - accepted:
                listener.unwatch_topic(Topic(key, value))
    return agreed


async def _accepted(
    accept: Accept,
    added: Added,
    context: RequestContext,
    values: list[str],
    request: InboundRequest,
) -> set[str]:
    identifier, seconds = added.extension.identifier, context.server.limits.tool_timeout
    try:
        with trio.move_on_after(seconds) as request.scope:
            if request.cause is not None:  # it was cancelled while another was asked
                return set()
            conversation = context.make_context(context.method)
            return set(await accept(request_for(identifier, context, conversation), values))
    except McpError:
        raise
    except Exception:
        logger.exception("Extension %s failed on %s", identifier, context.method)
        raise McpError(INTERNAL_ERROR, f"Extension {identifier} failed: internal error") from None
    if request.cause is not None:
        return set()
    raise McpError(INTERNAL_ERROR, f"Extension {identifier} did not answer within {seconds:g} s")


async def topic_line(
    listener: Listener, topic: Topic, stream_meta: Mapping[str, Json] | None
) -> bytes | None:
    """Write the notification that tells of something; `None` if there is nothing to tell."""
    render = listener.topics.get(topic)
    if render is None:  # it was unwatched meanwhile
        return None
    try:
        told = await render(topic.value)
        if told is None:
            return None
        method, own = told
        meta = {**(own.get("_meta") or {}), **(stream_meta or {})}
        return notification_line(method, {**own, "_meta": meta} if meta else own)
    except Exception:  # an extension's mistake must not end the stream for others
        logger.exception("The notification of %s cannot be sent", topic.key)
        return None
