"""The parts of the site in the menu: each can be folded, and only the one that is read is open.

Furo shows the captions of the lists of pages as headings, with all pages below them. Here each
becomes a `<details>` element, which needs no script, follows the keyboard, and is searched by the
browser.
"""

import re
from typing import Any

_PART = re.compile(
    r'<p class="caption" role="heading"><span class="caption-text">(?P<name>.*?)</span></p>\s*'
    r"(?P<pages><ul.*?)(?=<p class=\"caption\"|\Z)",
    re.DOTALL,
)


def foldable(tree: str) -> str:
    """Return the menu of a page with its parts foldable."""

    def fold(part: re.Match[str]) -> str:
        shown = " open" if "current" in part["pages"] else ""
        name = f'<summary class="caption-text">{part["name"]}</summary>'
        return f"<details{shown}>{name}{part['pages']}</details>"

    return _PART.sub(fold, tree)


def show_parts(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Fold the menu that the theme has made."""
    if "furo_navigation_tree" in context:
        context["furo_navigation_tree"] = foldable(context["furo_navigation_tree"])


def setup(app: Any) -> dict[str, bool]:
    """Register it with Sphinx."""
    app.connect("html-page-context", show_parts, priority=900)  # after the theme
    return {"parallel_read_safe": True, "parallel_write_safe": True}
