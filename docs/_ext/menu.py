"""The menu: nine parts that can be folded, of which the one that is read is open.

The theme would list all pages below the captions of their lists. Here each part is a `<details>`
element, which needs no script, follows the keyboard, and is searched by the browser; and the pages
below a page, such as those of classes, are listed while one of them is read. Lists whose captions
begin alike, such as "Run: Over HTTP", are groups of one part, under headings of their own. It is
made straight from the lists of pages: to have the theme make it for each page takes longer than all
the rest.
"""

from collections.abc import Callable, Mapping, Sequence
from html import escape
from itertools import groupby
from typing import Any

from attrs import frozen


@frozen
class Menu:
    """The pages of the site, in their order.

    Args:
        parts: By caption, the pages of each part, or of a group of it ("Part: Group").
        below: By page, those below it.
        titles: By page, its title.
    """

    parts: Mapping[str, Sequence[str]]
    below: Mapping[str, Sequence[str]]
    titles: Mapping[str, str]

    def seen_from(self, page: str, address: Callable[[str], str]) -> str:
        """Return the menu as HTML.

        Args:
            page: The page that shows it.
            address: Returns the address of a page, seen from that one.
        """
        shown = []
        for part, groups in groupby(self.parts.items(), key=lambda item: _split(item[0])[0]):
            listed, is_open = "", ""
            for caption, pages in groups:
                group = escape(_split(caption)[1])
                listed += f'<p class="menu-group">{group}</p>' if group else ""
                listed += self._listed(pages, page, address, level=1)
                if any(self._is_within(page, other) for other in pages):
                    is_open = " open"
            summary = f'<summary class="caption-text">{escape(part)}</summary>'
            shown.append(f"<details{is_open}>{summary}{listed}</details>")
        return "".join(shown)

    def _listed(
        self, pages: Sequence[str], page: str, address: Callable[[str], str], level: int
    ) -> str:
        items = []
        for other in pages:
            is_within = self._is_within(page, other)
            state = " current" * is_within + " current-page" * (page == other)
            title = escape(self.titles[other])
            link = f'<a class="reference internal" href="{address(other)}">{title}</a>'
            below = self.below.get(other, ()) if is_within else ()
            more = self._listed(below, page, address, level + 1) if below else ""
            items.append(f'<li class="toctree-l{level}{state}">{link}{more}</li>')
        return f"<ul>{''.join(items)}</ul>"

    def _is_within(self, page: str, other: str) -> bool:
        return page == other or page in self.below.get(other, ())


def _split(caption: str) -> tuple[str, str]:
    """Return the part that a caption names, and the group of it, if any."""
    part, _, group = caption.partition(": ")
    return part, group


def menu_of(env: Any) -> Menu:
    """Return the menu that the lists on the home page, and on the pages named there, make."""
    from sphinx import addnodes

    home = env.config.root_doc
    lists = env.tocs[home].findall(addnodes.toctree)
    return Menu(
        {part["caption"]: [page for _, page in part["entries"]] for part in lists},
        {page: below for page, below in env.toctree_includes.items() if page != home},
        {page: title.astext() for page, title in env.titles.items()},
    )


def without_theme(app: Any, page: str, template: str, context: dict[str, Any], _: Any) -> None:
    """Have the theme make no menu."""
    context["toctree"] = lambda **options: ""


def show_menu(app: Any, page: str, template: str, context: dict[str, Any], _: Any) -> None:
    """Put ours in its place."""

    def address(other: str) -> str:
        return str(app.builder.get_relative_uri(page, other))

    context["furo_navigation_tree"] = menu_of(app.env).seen_from(page, address)


def setup(app: Any) -> dict[str, bool]:
    """Register it with Sphinx."""
    app.connect("html-page-context", without_theme, priority=100)
    app.connect("html-page-context", show_menu, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
