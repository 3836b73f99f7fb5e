"""A clock that a test moves by hand."""

from attrs import define


@define
class Time:
    """The time of a store, in seconds."""

    now: float = 1_000_000.0

    def __call__(self) -> float:
        return self.now

    def passes(self, seconds: float) -> None:
        self.now += seconds
