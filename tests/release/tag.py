"""Release a version, up to the upload: `make release VERSION=0.1.0`.

python -m tests.release.tag VERSION
python -m tests.release.tag --verify TAG

It refuses what should not be released, runs everything that must hold, builds, and tags the commit.
With `--verify` it looks at a tag that is there, before the workflow builds what is uploaded.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.release.build import ROOT, Refused, git

_VERSION: Final = re.compile(r"\d+\.\d+\.\d+((a|b|rc)\d+)?")
_GOALS: Final = ("check", "test-all", "dist")


def notes_of(version: str, root: Path) -> str:
    """What the changelog says of a version, below a heading with its date; empty if nothing."""
    text = (root / "docs" / "changelog.md").read_text(encoding="utf-8")
    heading = rf"^## {re.escape(version)} - \d{{4}}-\d\d-\d\d$"
    found = re.search(rf"{heading}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    return found[1].strip() if found else ""


def objections(version: str, root: Path) -> Iterator[str]:
    """Why the commit that is checked out is not to be released as this version."""
    if not _VERSION.fullmatch(version):
        yield f"VERSION must be like 0.1.0 or 0.1.0rc1, not {version!r}"
    written = (root / "trio_mcp" / "version.py").read_text(encoding="utf-8")
    if f'__version__ = "{version}"' not in written:
        yield f"trio_mcp/version.py does not say {version}"
    if not notes_of(version, root):
        yield f"docs/changelog.md has no entry '## {version} - YEAR-MONTH-DAY' with text"
    changed = git("status", "--porcelain", root=root)
    if changed:
        yield f"not everything is committed:\n{changed}"


def refuse_if(reasons: list[str]) -> None:
    """Refuse with all reasons, if there are any."""
    if reasons:
        raise Refused("\n".join(f"Not released: {reason}" for reason in reasons))


def release(version: str, root: Path) -> None:
    """Check, test, build and tag the commit that is checked out.

    Raises:
        Refused: It is not to be released, or has changed while it was tested.
    """
    tag = f"v{version}"
    reasons = list(objections(version, root))
    if git("tag", "--list", tag, root=root):
        reasons.append(f"the tag {tag} exists; a version is released once")
    refuse_if(reasons)
    tested = git("rev-parse", "HEAD", root=root)
    make = [os.environ.get("MAKE", "make"), "--no-print-directory"]
    for goal in _GOALS:
        if subprocess.run([*make, goal], cwd=root).returncode != 0:
            raise Refused(f"Not released: `make {goal}` failed")
    reasons = list(objections(version, root))
    if git("rev-parse", "HEAD", root=root) != tested:
        reasons.append("another commit was checked out while this one was tested")
    refuse_if(reasons)
    message = f"{version}\n\n{notes_of(version, root)}"
    git("tag", "--annotate", "--cleanup=verbatim", "--message", message, tag, tested, root=root)
    print(f"Tagged {tag}. To publish it: git push origin {tag}")


def verify(tag: str, root: Path) -> None:
    """Look at a tag that is there, and checked out.

    Raises:
        Refused: It is not what `release` makes, or what is checked out is something else.
    """
    reasons = list(objections(tag.removeprefix("v"), root))
    if git("tag", "--list", tag, root=root) != tag or not tag.startswith("v"):
        reasons.append(f"there is no tag {tag} of a release")
    elif git("rev-parse", f"{tag}^{{commit}}", root=root) != git("rev-parse", "HEAD", root=root):
        reasons.append(f"{tag} is another commit than the one that is checked out")
    refuse_if(reasons)
    print(f"{tag} is to be released.")


def main(given: list[str]) -> int:
    """Do it; return the exit status."""
    try:
        match given:
            case ["--verify", tag]:
                verify(tag, ROOT)
            case [version]:
                release(version, ROOT)
            case _:
                raise Refused("say which version: make release VERSION=0.1.0")
    except Refused as refused:
        print(refused, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
