"""Who waits for news of which channels, within this process.

News has no content: it says that there may be something to see. So a burst of it is one piece of
news, and whoever is slow never has more waiting than there are channels.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

import trio


class Watch:
    """What `Store.watch` gives: the channels that there was news of.

    Args:
        channels: Those that it is about.
    """

    def __init__(self, channels: frozenset[str]) -> None:
        self.channels: Final = channels
        self._fresh: set[str] = set()
        self._told = trio.lowlevel.ParkingLot()

    async def wait(self) -> frozenset[str]:
        """Wait until there is news.

        Returns:
            The channels that there was news of since the last time, perhaps with others.

        Cancelled, nothing is taken: the next call returns at once.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        while not self._fresh:
            await self._told.park()
        fresh, self._fresh = frozenset(self._fresh), set()
        return fresh

    def tell(self, channel: str | None) -> None:
        """Say that there is news of a channel, or that there may be of any."""
        self._fresh |= self.channels if channel is None else {channel}
        self._told.unpark_all()


class Watches:
    """All watches of one store in this process."""

    def __init__(self) -> None:
        self._by_channel: dict[str, dict[Watch, None]] = {}

    @contextmanager
    def open(self, channels: frozenset[str]) -> Iterator[Watch]:
        """Watch channels while the block lasts."""
        watch = Watch(channels)
        for channel in channels:
            self._by_channel.setdefault(channel, {})[watch] = None
        try:
            yield watch
        finally:
            for channel in channels:
                watches = self._by_channel[channel]
                del watches[watch]
                if not watches:
                    del self._by_channel[channel]

    def tell(self, channels: Iterable[str]) -> None:
        """Say that there is news of some channels."""
        for channel in channels:
            for watch in self._by_channel.get(channel, ()):
                watch.tell(channel)

    def tell_all(self) -> None:
        """Say that there may be news of any channel: some may have been missed."""
        for watches in self._by_channel.values():
            for watch in watches:
                watch.tell(None)
