"""How many words each page of the site has: a page of prose has at most 2,000.

python -m tests.docs.prose

What a reader reads is counted: text, headings, lists and tables, in notes, cards and tabs as well.
Not counted are code, lists of pages, names and options of directives, the targets of links, and
marks without a letter or figure.
"""

import re
from collections.abc import Iterator
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
LIMIT = 2_000
SKIPPED = {"_build", "examples"}

_LEFT_OUT = re.compile(
    r"^ *(?P<code>`{3,}).*?^ *(?P=code)$"
    r"|^(?P<pages>:{3,})\{toctree\}.*?^(?P=pages)$"
    r"|^ *:{3,}(\{[\w-]+\})?|^ *:[\w-]+:.*?$"  # the ends of a directive, and its options
    r"|<!--.*?-->"
    r"|^\[[^\]]+\]: .*?$"  # where named links lead
    r"|(?<=\])\([^)\s]*\)",
    re.MULTILINE | re.DOTALL,
)
_WORD = re.compile(r"\S*\w\S*")


def words_of(text: str) -> int:
    """Count the words of a page in Markdown."""
    return len(_WORD.findall(_LEFT_OUT.sub(" ", text).replace("|", " ")))


def pages() -> Iterator[tuple[str, int]]:
    """Yield the name of each page in Markdown, below `docs`, with its number of words."""
    for path in sorted(DOCS.rglob("*.md")):
        place = path.relative_to(DOCS)
        if SKIPPED.isdisjoint(place.parts):
            yield str(place), words_of(path.read_text())


if __name__ == "__main__":
    for name, words in sorted(pages(), key=lambda page: page[1], reverse=True):
        print(f"{words:6,} {'>' if words > LIMIT else ' '} {name}")
