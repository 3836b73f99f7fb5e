"""What `trio-mcp port` knows of the names that public servers use.

    python -m benchmarks.porting --record docs/measured/porting.json

Each package is fetched from PyPI, in its newest release, and is read, not installed or run.
"""

import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

from benchmarks.packages import FOLDER
from benchmarks.records import recording, show

PACKAGES = (
    *("keboola-mcp-server", "mcp-atlassian", "mcp-neo4j-cypher"),
    *("mcp-neo4j-data-modeling", "mcp-server-fetch", "mcp-server-git", "mcp-server-motherduck"),
    *("mcp-server-qdrant", "mcp-server-time"),
    *("awslabs.amazon-keyspaces-mcp-server", "awslabs.aurora-dsql-mcp-server"),
    *("awslabs.cloudtrail-mcp-server", "awslabs.documentdb-mcp-server"),
    *("awslabs.iam-mcp-server", "awslabs.redshift-mcp-server"),
)
STATUSES = ("same or renamed", "otherwise", "unknown")
HEADERS = ["Package", "Version", "Same or renamed", "Done otherwise", "Not known"]


def download(package: str) -> Path:
    """Fetch the wheel of a package, unless it is there; return where it is."""
    folder = FOLDER / "wheels"
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    subprocess.run(
        [
            *pip,
            "--disable-pip-version-check",
            "--only-binary=:all:",
            "--dest",
            str(folder),
            package,
        ],
        check=True,
    )
    name = package.replace("-", "_").replace(".", "[._]")
    return max(folder.glob(f"{name}-*.whl"), key=lambda wheel: wheel.stat().st_mtime)


def count(wheel: Path) -> Counter[str]:
    """Count the names that the package uses by what `trio-mcp port` says of them."""
    with tempfile.TemporaryDirectory() as folder, ZipFile(wheel) as content:
        content.extractall(folder)
        command = [sys.executable, "-m", "trio_mcp.cli", "port", "--json", folder]
        done = subprocess.run(command, capture_output=True, check=True)
    return Counter(row["status"] for row in json.loads(done.stdout))


def rows() -> Iterator[list[str]]:
    """Make the rows of the table: a package each, and all of them."""
    total: Counter[str] = Counter()
    for package in PACKAGES:
        wheel = download(package)
        counts = count(wheel)
        total += counts
        yield [package, wheel.name.split("-")[1], *(f"{counts[each]:,}" for each in STATUSES)]
    yield ["all", "", *(f"{total[each]:,}" for each in STATUSES)]


def main() -> None:
    options = recording("porting", __doc__)
    show(HEADERS, list(rows()), options.record)


if __name__ == "__main__":
    main()
