"""The tasks of this process that wait for news of channels.

News has no content: it says that there may be something to see. So a burst of it is one piece of
news, and a slow task never has more waiting than there are channels.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

import trio


class Watch:
    """Collects news of some channels (`Store.watch`)."""

    def __init__(self, channels: frozenset[str]) -> None:
        self.channels: Final = channels
        self._fresh: set[str] = set()
        self._waiting = trio.lowlevel.ParkingLot()

    async def wait(self) -> frozenset[str]:
        """Wait until there is news.

        Returns:
            The channels that have had news since the last call, perhaps with others.

        If this is cancelled, nothing is lost: the next call returns at once.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        while not self._fresh:
            await self._waiting.park()
        fresh, self._fresh = frozenset(self._fresh), set()
        return fresh

    def notify(self, channel: str | None) -> None:
        """Record news of a channel, or of all of them."""
        self._fresh |= self.channels if channel is None else {channel}
        self._waiting.unpark_all()


class Watches:
    """All watches of a store in this process."""

    def __init__(self) -> None:
        self._by_channel: dict[str, dict[Watch, None]] = {}

    @contextmanager
    def open(self, channels: frozenset[str]) -> Iterator[Watch]:
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

    def notify(self, channels: Iterable[str]) -> None:
        for channel in channels:
            for watch in self._by_channel.get(channel, ()):
                watch.notify(channel)

    def notify_all(self) -> None:
        """Wake all watches, as news of any channel may have been missed."""
        self.notify(list(self._by_channel))
