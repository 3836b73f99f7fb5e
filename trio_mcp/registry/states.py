"""Where it is noted that a sealed state was used: each is good for one request."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from trio_mcp.loggers import logger_of
from trio_mcp.store.errors import StoreError
from trio_mcp.wire.errors import INTERNAL_ERROR, McpError

if TYPE_CHECKING:  # most requests bring no state
    from trio_mcp.auth.server.resource import ReplayStore
    from trio_mcp.registry.sealing import OpenedState

logger = logger_of("trio_mcp")

MOST_STATES: Final = 100_000
"""States that are remembered as used, for as long as they would be good."""

STATES_OF_ONE: Final = MOST_STATES // 10
"""How many of them one owner may have."""


class UsedStates:
    """The states that were used: remembered in this process, unless the record is shared."""

    def __init__(self, record: ReplayStore | None = None) -> None:
        self._record = record

    async def consume(self, state: OpenedState) -> None:
        """Note that a state is used, before the work begins that it is for.

        Raises:
            StateRefused: It was used before, or too many were.
            McpError: The store cannot be used.
        """
        if self._record is None:
            from trio_mcp.store.used import ReplayRecord

            # By the clock of the sealer: Trio's is another one in each run.
            self._record = ReplayRecord(MOST_STATES, STATES_OF_ONE, time.time)
        try:
            is_new = await self._record.add(state.owner, state.id, state.seconds)
        except StoreError as error:
            logger.warning("%s", error)
            why = "The server cannot look up now whether this was answered before; send it again"
            raise McpError(INTERNAL_ERROR, why) from None
        if not is_new:
            from trio_mcp.registry.sealing import StateRefused

            raise StateRefused("replayed", "it was used before, or too many were")
