"""The files of a starter project. `$NAME` is its name and `$MODULE` that of its module."""

from __future__ import annotations

from typing import Final

_PYPROJECT: Final = """\
[build-system]
requires = ["hatchling>=1.25"]
build-backend = "hatchling.build"

[project]
name = "$NAME"
version = "0.1.0"
description = "An MCP server."
readme = "README.md"
requires-python = ">=3.11"
dependencies = ["trio-mcp"]

[project.optional-dependencies]
test = ["pytest>=8", "pytest-trio>=0.8"]

[project.scripts]
$NAME = "$MODULE:main"

[tool.hatch.build.targets.wheel]
only-include = ["$MODULE.py"]

[tool.pytest.ini_options]
testpaths = ["tests"]
pythonpath = ["."]
trio_mode = true
"""

_SERVER: Final = '''\
"""An MCP server with one of each: a tool, a resource, and a prompt."""

from typing import Literal

import trio
from trio_mcp import Registry, serve

registry = Registry("$NAME", version="0.1.0")

GREETINGS = {"en": "Hello", "fr": "Bonjour", "de": "Guten Tag"}


@registry.tool
async def greet(name: str, language: Literal["en", "fr", "de"] = "en") -> str:
    """Greet somebody.

    Args:
        name: Who is greeted.
        language: The language of the greeting.
    """
    return f"{GREETINGS[language]}, {name}!"


@registry.resource("greetings://all")
async def greetings() -> dict[str, str]:
    """All greetings, by language."""
    return GREETINGS


@registry.prompt
async def welcome(name: str) -> str:
    """Ask for a warm welcome.

    Args:
        name: Who is welcomed.
    """
    return f"Welcome {name} warmly, in three sentences. Begin with the tool greet."


def main() -> None:
    """Serve on stdin and stdout."""
    trio.run(serve, registry)


if __name__ == "__main__":
    main()
'''

_TEST: Final = '''\
"""The server, tested in this process: no child, no network."""

import pytest
from trio_mcp import connect
from trio_mcp.errors import InvalidArguments

from $MODULE import registry


async def test_the_tool() -> None:
    async with connect(registry) as client:
        english = await client.call_tool("greet", {"name": "Ada"})
        assert english.text == "Hello, Ada!"
        french = await client.call_tool("greet", {"name": "Ada", "language": "fr"})
        assert french.text == "Bonjour, Ada!"


async def test_arguments_are_checked() -> None:
    async with connect(registry) as client:
        with pytest.raises(InvalidArguments, match="language"):
            await client.call_tool("greet", {"name": "Ada", "language": "la"})


async def test_the_resource() -> None:
    async with connect(registry) as client:
        assert '"en"' in (await client.read_resource("greetings://all")).text


async def test_the_prompt() -> None:
    async with connect(registry) as client:
        prompt = await client.get_prompt("welcome", {"name": "Ada"})
        assert len(prompt.messages) == 1
'''

_README: Final = """\
# $NAME

An MCP server, built with trio-mcp.

```sh
python -m venv .venv
. .venv/bin/activate
pip install -e '.[test]' 'trio-mcp[cli]'
```

Where the package index does not have trio-mcp, install it first from a checkout of it:
`pip install '/path/to/trio-mcp[cli]'`.

Test it, look at it, use it:

```sh
pytest
trio-mcp tools $MODULE.py
trio-mcp call $MODULE.py greet name=Ada language=fr
trio-mcp inspect $MODULE.py
trio-mcp doctor $MODULE.py
```

Give it to a host (Claude Desktop, Claude Code, Cursor, VS Code):

```sh
trio-mcp install $MODULE.py --host claude-desktop
```

While you work on it, `trio-mcp serve $MODULE.py --reload` starts it anew at each change.
"""

_IGNORED: Final = """\
.venv/
__pycache__/
.pytest_cache/
dist/
"""

FILES: Final = {
    "pyproject.toml": _PYPROJECT,
    "$MODULE.py": _SERVER,
    "tests/test_$MODULE.py": _TEST,
    "README.md": _README,
    ".gitignore": _IGNORED,
}
"""The text of each file, by its path."""
