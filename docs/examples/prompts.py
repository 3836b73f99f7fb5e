"""Prompts: messages for a model, written from what a user fills in."""

from typing import Literal

import trio

from trio_mcp import EmbeddedResource, PromptMessage, Registry, TextResourceContents, serve

registry = Registry("reviewer", version="1.0")

RULES = "Say what is good first. Name the line. Suggest, do not command."


@registry.prompt(title="Review code")
async def review(code: str, language: Literal["python", "rust"] = "python", points: int = 3) -> str:
    """Have code reviewed.

    Args:
        code: The code.
        language: What it is written in.
        points: How many points to make, at most.
    """
    return f"Review this {language} code. Make {points} points at most.\n\n{code}"


@registry.prompt
async def debug(error: str) -> list[str | PromptMessage]:
    """Begin a conversation about an error."""
    return [
        f"My program fails: {error}",
        PromptMessage("assistant", "I will help. What have you tried so far?"),
    ]


@registry.prompt
async def strict_review(code: str) -> list[str | EmbeddedResource]:
    """Have code reviewed by our own rules."""
    rules = TextResourceContents("rules://review", RULES, mime_type="text/plain")
    return ["Review this code by the rules below.", code, EmbeddedResource(rules)]


if __name__ == "__main__":
    trio.run(serve, registry)
