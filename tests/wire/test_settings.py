"""What requests have made of a session is known from the rows of the methods alone."""

from typing import Any

import pytest

from trio_mcp.wire.methods import METHODS
from trio_mcp.wire.settings import SessionSettings, is_setting


def noted(*requests: tuple[str, dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    settings = SessionSettings()
    for method, params in requests:
        settings.note(method, params)
    return list(settings)


def test_the_last_of_each_counts() -> None:
    subscribed = ("resources/subscribe", {"uri": "a:1"})
    assert noted(
        ("logging/setLevel", {"level": "info"}),
        ("resources/subscribe", {"uri": "a:0"}),
        subscribed,
        ("logging/setLevel", {"level": "error"}),
        ("resources/unsubscribe", {"uri": "a:0"}),
        ("resources/unsubscribe", {"uri": "a:2"}),
        ("tools/list", {}),
        ("com.example/odd", {}),
    ) == [("logging/setLevel", {"level": "error"}), subscribed]


@pytest.mark.parametrize("uri", [[], {}, 5])
def test_what_names_nothing_is_no_setting(uri: Any) -> None:
    assert (
        noted(("resources/subscribe", {"uri": uri}), ("resources/unsubscribe", {"uri": uri})) == []
    )


def test_what_is_a_setting() -> None:
    assert {name for name in METHODS if is_setting(name)} == {
        "logging/setLevel",
        "resources/subscribe",
        "resources/unsubscribe",
    }
    assert not is_setting("com.example/odd")
