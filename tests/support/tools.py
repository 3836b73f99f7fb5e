"""Registries and answers, in few words."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import trio

from tests.support.client import LEGACY, MODERN, REVISIONS
from trio_mcp import Registry

each_revision = pytest.mark.parametrize("revision", REVISIONS)
some_revisions = pytest.mark.parametrize("revision", [LEGACY[-1], *MODERN])
"""One of each era: enough for families of values and words that all revisions share."""
each_legacy_revision = pytest.mark.parametrize("revision", [LEGACY[0], LEGACY[-1]])

INTERNAL = "internal error (see the server's log)"


def registry_of(*functions: Callable[..., Any], **options: Any) -> Registry:
    """Make a registry named `test` of functions."""
    registry = Registry("test", version="1.2", **options)
    for function in functions:
        registry.add_tool(function)
    return registry


def returning(value: Any) -> Registry:
    """Make a registry with a tool `give` that returns a value, or raises an exception."""

    async def give():  # type: ignore[no-untyped-def]  # no annotation: nothing is inferred
        if isinstance(value, BaseException):
            raise value
        return value

    return registry_of(give)


async def echo(text: str) -> str:
    """Return the text."""
    return text


async def wait(seconds: float) -> str:
    """Return after some seconds."""
    await trio.sleep(seconds)
    return f"waited {seconds:g}"


async def linger(seconds: float, more: float) -> str:
    """Wait some seconds, and when cancelled yet more."""
    try:
        await trio.sleep(seconds)
    finally:
        with trio.CancelScope(shield=True):
            await trio.sleep(more)
    return "lingered"


def text_of(answer: Any) -> str:
    """The text of a result that has one block."""
    [block] = answer["result"]["content"]
    text: str = block["text"]
    return text


def failure_of(answer: Any) -> str:
    """The text of a result that is an error."""
    assert answer["result"]["isError"] is True
    return text_of(answer)


def error_of(answer: Any) -> tuple[int, str]:
    """Code and message of an error."""
    error = answer["error"]
    return error["code"], error["message"]


def raw(message: dict[str, Any]) -> bytes:
    """A message as a line."""
    return json.dumps(message).encode() + b"\n"
