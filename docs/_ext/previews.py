"""Previews of links: no address is claimed while the site has none.

sphinxext-opengraph writes the title and the beginning of a page for programs that preview links. It
writes the address of the page and of a picture as well, relative ones if `ogp_site_url` is empty:
those lead nowhere, and are left out.
"""

import re
from contextlib import redirect_stdout
from typing import Any

_ADDRESS = re.compile(r'<meta property="og:(url|image|image:alt)"[^>]*>\n?')


def show_previews(
    app: Any, page: str, template: str, context: dict[str, Any], doctree: Any
) -> None:
    """Take the addresses out, if the site has none."""
    if doctree and not app.config.ogp_site_url:
        context["metatags"] = _ADDRESS.sub("", context["metatags"])


def setup(app: Any) -> dict[str, bool]:
    """Register both with Sphinx."""
    with redirect_stdout(None):  # where it says that it draws no cards without matplotlib
        app.setup_extension("sphinxext.opengraph")
    app.connect("html-page-context", show_previews, priority=900)  # after the other's
    return {"parallel_read_safe": True, "parallel_write_safe": True}
