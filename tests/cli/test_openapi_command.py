"""`trio-mcp openapi`: what a document describes, served on stdio."""

import pytest

from tests.cli.support import COMMAND, CommandLine
from tests.support.processes import ENVIRONMENT, EXAMPLES, lines, parse, ping, run

BOOKSHOP = str(EXAMPLES / "bookshop.yaml")
pytestmark = pytest.mark.requirement("L6")


@pytest.mark.long
async def test_it_serves_on_stdio() -> None:
    listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
    words = [BOOKSHOP, "--leave-out", "DELETE *", "--auth-env", "token=SHOP_TOKEN"]
    done = await run(
        [*COMMAND, "openapi", *words],
        lines(ping(1), listing),
        env={**ENVIRONMENT, "SHOP_TOKEN": "s3cret"},
    )
    assert done.returncode == 0
    names = [each["name"] for each in parse(done.stdout)[1]["result"]["tools"]]
    assert names == ["books_search", "books_get", "books_order"]
    assert b"s3cret" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["nowhere.yaml"], "nowhere.yaml: No such file or directory"),
        ([BOOKSHOP, "--only", "tag:x"], "only: 'tag:x' means no operation"),
        ([BOOKSHOP, "--auth-env", "token=NOT_SET"], "no credential in the variable NOT_SET"),
        ([BOOKSHOP, "--header", "odd"], "a header is written 'Name: value'"),
        ([BOOKSHOP, "--base-url", "shop"], "base_url must begin with https://"),
    ],
)
def test_what_cannot_be_served_is_told_in_one_line(
    words: list[str], told: str, cli: CommandLine
) -> None:
    outcome = cli("openapi", *words)
    assert outcome.status in (1, 2)
    assert told in outcome.err
    assert outcome.err.count("\n") == 1
