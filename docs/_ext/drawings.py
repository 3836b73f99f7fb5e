"""Drawings as parts of the page: their text can be found and read out, their colours follow it.

In Markdown a drawing is an image, as a code host shows it. There it looks after dark mode by
itself, with a media query. On the site a reader may choose dark or light, whatever the system
says; so the rules in that media query are repeated for the choice.
"""

import re
from pathlib import Path
from typing import Any

_DARK = re.compile(r"@media \(prefers-color-scheme: dark\) \{\n(.*?)\n    \}\n", re.DOTALL)


def part_of_page(svg: str) -> str:
    """Return a drawing as HTML that follows the theme of the page."""

    def follow(rules: re.Match[str]) -> str:
        return (
            '@media (prefers-color-scheme: dark) { body:not([data-theme="light"]) {\n'
            f'{rules[1]}\n}} }}\nbody[data-theme="dark"] {{\n{rules[1]}\n}}\n'
        )

    return _DARK.sub(follow, svg)


def show_drawings(app: Any, doctree: Any, page: str) -> None:
    """Put every SVG image of a page into it."""
    from docutils import nodes

    for image in list(doctree.findall(nodes.image)):
        path = Path(app.srcdir, image["uri"])
        if path.suffix == ".svg" and app.builder.format == "html":
            html = part_of_page(path.read_text(encoding="utf-8"))
            image.replace_self(nodes.raw("", html, format="html"))


def setup(app: Any) -> dict[str, bool]:
    """Register it with Sphinx."""
    app.connect("doctree-resolved", show_drawings)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
