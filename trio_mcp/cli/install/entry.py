"""What a host needs to start a target: a command with absolute paths, and a name."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from trio_mcp.cli.failures import Failure, Usage, last_words
from trio_mcp.cli.target import OURSELVES, Target, split_target

_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_RUNNERS: Final = re.compile(
    r"(npx|uvx|pipx|uv|bunx|bun|pnpm|dlx|run|tool|exec|deno|node|docker|python[\d.]*)"
)
_AFFIXES: Final = re.compile(r"^(mcp-server-|server-|mcp-)|(-mcp-server|-server|-mcp)$")
_CHECK_SECONDS: Final = 30.0


def name_of(target: Target, name: str | None) -> str:
    name = name or _suggested(target)
    if name is None:
        raise Usage("say what the host shall call the server: --name NAME")
    if not _NAME.fullmatch(name):
        raise Usage(f"a name has letters, digits, '.', '_' and '-', at most 64: not {name!r}")
    return name


def command_of(target: Target, env: dict[str, str]) -> tuple[list[str], dict[str, str]]:
    """Return a command that starts a target from anywhere, and its variables."""
    if target.registry is None:
        program = shutil.which(target.command[0])
        if program is None:
            raise Failure(
                f"there is no program {target.command[0]!r}; install it, or give its path"
            )
        return [os.path.abspath(program), *map(_absolute, target.command[1:])], env
    place, name = split_target(target.registry)
    if place.endswith(".py"):
        place = os.path.abspath(place)
    elif not _is_installed(place):
        env = {"PYTHONPATH": os.getcwd(), **env}
    registry = f"{place}:{name}" if name else place
    _check(registry, env)
    script = shutil.which("trio-mcp", path=os.path.dirname(sys.executable))
    ours = [script] if script is not None else [sys.executable, "-m", "trio_mcp.cli"]
    return [*ours, "serve", registry], env


def _suggested(target: Target) -> str | None:
    if target.url is not None:
        return urlsplit(target.url).hostname
    if target.registry is not None:
        return Path(split_target(target.registry)[0]).stem.rpartition(".")[2]
    for word in target.command:
        base = Path(re.split(r"[/\\]", word)[-1].partition("@")[0] or word).stem
        if word.startswith("-") or _RUNNERS.fullmatch(base):
            continue
        found = _AFFIXES.sub("", base)
        return found if _NAME.fullmatch(found) else None
    return None


def _absolute(word: str) -> str:
    is_path = (
        word in (".", "..")
        or "/" in word
        or os.sep in word
        or Path(word).suffix in (".py", ".js", ".mjs")
    )
    if is_path and not word.startswith("-") and os.path.exists(word):
        return os.path.abspath(word)
    return word


def _is_installed(module: str) -> bool:
    here = {"", os.getcwd()}
    before = sys.path[:]
    sys.path[:] = [folder for folder in before if folder not in here]
    try:
        return importlib.util.find_spec(module.partition(".")[0]) is not None
    finally:
        sys.path[:] = before


def _check(registry: str, env: dict[str, str]) -> None:
    """Start a registry with nothing to do, to see that it can be served."""
    command = [*OURSELVES, "serve", registry, "--log-level", "error"]
    try:
        done = subprocess.run(  # noqa: S603 (it is what the person wants to install)
            command,
            env={**os.environ, **env},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_CHECK_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Failure(f"{registry} does not start: no end of it in {_CHECK_SECONDS:g} s") from None
    if done.returncode:
        raise Failure(last_words(done.stderr).removeprefix("trio-mcp: ") or "it does not start")
