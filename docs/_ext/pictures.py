"""The pictures of a terminal and of the explorer, made from real runs.

`python -m docs._ext.pictures` makes them again, in `docs/_static`: `terminal.svg` from what the
commands of the front page print, `explorer-*.png` from the page of `trio-mcp inspect --web`, light
and dark, with Chromium and Node.js (`make peers` installs what drives the browser).
"""

import os
import re
import shutil
import subprocess
import sys
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import wrap

_ROOT = Path(__file__).parents[2]
_FOLDER = _ROOT / "docs" / "_static"
_PROGRAM = [sys.executable, "-m", "trio_mcp.cli"]
_ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+/\S+")

SERVER = "calculator.py"
COMMANDS = [
    f"trio-mcp tools {SERVER}",
    f"trio-mcp call {SERVER} add a=1 b=2",
    f"trio-mcp call {SERVER} add a=1 b=two",
]
"""What is typed in the picture of a terminal."""

_COLUMNS = 76
_LETTER, _LINE = 8.0, 20
_STYLE = """\
  <style>
    .terminal text { font: 13.3px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
    .terminal text { fill: #1f2933; white-space: pre; }
    .terminal .typed { font-weight: 600; }
    .terminal .prompt { fill: #1f5fbf; }
    .terminal .paper { fill: #f6f7f9; stroke: #dde1e7; }
    @media (prefers-color-scheme: dark) {
      .terminal text { fill: #e4e8ee; }
      .terminal .prompt { fill: #7eb0ff; }
      .terminal .paper { fill: #14171c; stroke: #313844; }
    }
  </style>"""


def server() -> str:
    """Return the first server of the README."""
    readme = (_ROOT / "README.md").read_text(encoding="utf-8")
    return readme.partition("```python\n")[2].partition("```")[0]


def session(folder: Path) -> list[tuple[str, list[str]]]:
    """Run the commands beside the server; return each with the lines that it prints."""
    (folder / SERVER).write_text(server(), encoding="utf-8")
    variables = {"PYTHONPATH": str(_ROOT), "COLUMNS": str(_COLUMNS), "NO_COLOR": "1"}
    shown = []
    for command in COMMANDS:
        done = subprocess.run(
            [*_PROGRAM, *command.split()[1:]],
            cwd=folder,
            env={**os.environ, **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            check=False,
        )
        lines = (line for long in done.stdout.splitlines() for line in wrap(long, _COLUMNS))
        shown.append((command, [line.rstrip() for line in lines]))
    return shown


def terminal(shown: list[tuple[str, list[str]]]) -> str:
    """Draw a session on a terminal, for light and dark pages."""
    rows = []
    for command, lines in shown:
        rows.append(
            f'<tspan class="prompt">$ </tspan><tspan class="typed">{escape(command)}</tspan>'
        )
        rows += [escape(line) for line in [*lines, ""]]
    rows.pop()
    width, height = round(_COLUMNS * _LETTER) + 40, _LINE * len(rows) + 30
    texts = (
        f'  <text x="20" y="{30 + _LINE * number}">{row}</text>'
        for number, row in enumerate(rows)
        if row
    )
    said = "; ".join(f"{command}: {' '.join(lines)}" for command, lines in shown)
    return "\n".join(
        [
            '<svg xmlns="http://www.w3.org/2000/svg" class="drawing terminal"',
            f'     width="{width}" height="{height}" viewBox="0 0 {width} {height}"',
            '     role="img" aria-labelledby="terminal-title terminal-desc">',
            '  <title id="terminal-title">A terminal, in which tools are listed and called</title>',
            f'  <desc id="terminal-desc">{escape(said)}</desc>',
            _STYLE,
            f'  <rect class="paper" width="{width}" height="{height}" rx="8"/>',
            *texts,
            "</svg>\n",
        ]
    )


def scenes() -> dict[str, str]:
    """Return the sources of the servers that the explorer is shown with, by scene."""
    asking = _ROOT / "docs" / "examples" / "asking.py"
    return {"calls": server(), "asking": asking.read_text(encoding="utf-8")}


def explorer(folder: Path, scene: str, packages: Path, chromium: str, pictures: Path) -> None:
    """Use a server on the page of `inspect --web`, and take pictures of it.

    Args:
        folder: An empty folder, for the server and the script.
        scene: What is done there, one of `scenes`.
        packages: The `node_modules` with what drives the browser.
        chromium: Where the browser is.
        pictures: Where the pictures go.
    """
    (folder / SERVER).write_text(scenes()[scene], encoding="utf-8")
    (folder / "node_modules").symlink_to(packages)
    script = shutil.copy(Path(__file__).with_name("explorer.mjs"), folder)
    environment = {**os.environ, "PYTHONPATH": str(_ROOT)}
    inspector = subprocess.Popen(
        [*_PROGRAM, "inspect", "--web", SERVER],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    with inspector:
        try:
            assert inspector.stdout is not None
            found = next(filter(None, map(_ADDRESS.search, inspector.stdout)))
            command = ["node", script, chromium, found[0], scene, str(pictures)]
            subprocess.run(command, check=True, timeout=180)
        finally:
            inspector.terminate()


def main() -> None:
    with TemporaryDirectory() as folder:
        drawn = terminal(session(Path(folder)))
    (_FOLDER / "terminal.svg").write_text(drawn, encoding="utf-8")
    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit("Chromium is needed for the pictures of the explorer")
    packages = _ROOT / ".conformance" / "peers" / "node_modules"
    for scene in scenes():
        with TemporaryDirectory() as folder:
            explorer(Path(folder), scene, packages, chromium, _FOLDER)


if __name__ == "__main__":
    main()
