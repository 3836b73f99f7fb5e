"""What an extension tells clients of."""

from attrs import frozen


@frozen
class Topic:
    """Something that an extension tells of has changed."""

    key: str
    """What clients ask for it by (`ExtensionSubscription.key`)."""
    value: str | None
    """Which of the things that there are under the key."""
