"""The names of ASGI 3 that the server speaks in. Its scopes and messages are open mappings."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
AsgiApp = Callable[[Any, Receive, Send], Awaitable[None]]

Headers = list[tuple[bytes, bytes]]
"""Names in lower case, and values without white space around them, in the order of the wire."""
