"""`trio-mcp inspect`, with commands from a pipe."""

from pathlib import Path

import pytest

from tests.cli.support import SHOP, CommandLine
from tests.support.processes import EXAMPLES

SCRIPT = """help

list tools
call say words=hello
call types {"text": "x y"}
ping
read shop://stock
prompt review book=Emma
subscribe tools
subscribe tools prompts
call restock
unsubscribe prompts
subscribe shop://stock
call restock
ping
ping
unsubscribe all
quit
call say words=never
"""


@pytest.mark.long
def test_commands_from_a_pipe(cli: CommandLine) -> None:
    done = cli("inspect", SHOP, stdin=SCRIPT)
    assert done.status == 0, done.err
    assert "subscribe URI" in done.out
    assert "Order a book." in done.out
    assert "returned: hello\n" in done.out
    assert '"text": "x y"' in done.out
    assert " ms\n" in done.out
    assert "never" not in done.out
    assert '{"Emma":3}\n' in done.out, "what comes next begins a line of its own"
    assert "Write a kind review of Emma." in done.out
    assert done.err.count("Subscribed to tools.") == 1
    assert "No longer subscribed to prompts." in done.err
    assert done.err.count("Changed: shop://stock") == 1


def test_a_command_that_fails_shows_in_the_exit_status(cli: CommandLine, shop: str) -> None:
    script = "call nothing\nlist nothing\ncall fail\ncall say words=on\nread a b\ncall\n"
    script += "prompt\nping a\nsubscribe\nunsubscribe it\nread shop://nothing\ncall say words='\n"
    done = cli("inspect", shop, stdin=script)
    assert (done.status, done.out) == (1, "returned: on\n")
    for told in (
        "no tool 'nothing'",
        "usage: list [tools|resources|prompts]",
        "tool 'fail' failed: It failed: no reason",
        "usage: read URI",
        "usage: call NAME",
        "usage: ping",
        "usage: prompt NAME",
        "usage: subscribe URI …|tools|resources|prompts",
        "there is no subscription to 'it'",
        "there is no resource shop://nothing",
        "cannot be split into words",
    ):
        assert told in done.err
    assert "Traceback" not in done.err


def test_no_value_ends_the_session(cli: CommandLine, shop: str) -> None:
    values = ("number=1e400", "number:=1e400", '{"number": 1e400}', 'text:="\\ud800"')
    deep = "[" * 3000 + "]" * 3000
    script = "".join(f"call types text=a {each}\n" for each in (*values, f"nested:={deep}"))
    done = cli("inspect", shop, stdin=f"{script}call say words=on\n")
    assert (done.status, done.out) == (1, "returned: on\n")
    assert "'number' must be a number" in done.err
    assert done.err.count("1e400, which is too large, is not JSON") == 2
    assert done.err.count("trio-mcp: ") == len(values) + 1
    assert "Traceback" not in done.err


def test_what_was_meant(cli: CommandLine, shop: str) -> None:
    script = "cal say words=on\nread shop://stok\ncall sya\ncomplete reviw book=E\n"
    script += "read shop://bookz/title\nread shop://books/{title}\n"
    done = cli("inspect", shop, stdin=script)
    for word in ("'call'", "shop://stock", "'say'", "'review'", "shop://books/{title}"):
        assert f"did you mean {word}?" in done.err
    assert "shop://books/{title} is a template: put a value in place of {…}" in done.err


def test_completion_on_demand(cli: CommandLine) -> None:
    script = "complete trip city=V country=Italy\ncomplete trip city=X\ncomplete trip\n"
    script += "complete trains://{number} number=1\ncomplete nothing a=b\n"
    done = cli("inspect", str(EXAMPLES / "completion.py"), stdin=script)
    assert "0 tools, 0 resources, 1 template, 1 prompt." in done.err, "templates are counted"
    assert done.out.startswith("Venice\n1")
    assert "There are none." in done.err
    assert "There are more." in done.err
    assert "usage: complete PROMPT|TEMPLATE KEY=VALUE" in done.err
    assert "no prompt or template 'nothing'; it has: trip, trains://{number}" in done.err


def test_a_server_that_suggests_nothing(cli: CommandLine, shop: str) -> None:
    done = cli("inspect", shop, stdin="complete review tone=k\n")
    assert "trio-mcp: the server does not suggest values\n" in done.err


@pytest.mark.long
def test_a_server_that_dies_is_started_again(cli: CommandLine) -> None:
    script = "call complain\ncall die\ncall say words=on\ncall die\nquit\ncall say words=never\n"
    done = cli("inspect", SHOP, stdin=script)
    assert (done.status, done.out) == (1, "complained\nreturned: on\n")
    assert done.err.count("the server exited with status 3 and left no word on stderr") == 2
    assert done.err.count("Connected to shop") == 2
    assert "OldError" not in done.err


BOOM = """
from trio_mcp import Registry, ToolError
registry = Registry("boom")
@registry.tool
async def boom(x: int) -> float:
    return 1 / x
@registry.tool
async def no() -> None:
    raise ToolError("No.")
@registry.resource("boom://now")
async def now() -> str:
    raise KeyError("Rose")
"""


@pytest.mark.long
@pytest.mark.requirement("B6")
def test_where_a_server_of_ones_own_fails(cli: CommandLine) -> None:
    """Its traceback is in its log, which is shown, once; the answer has none of it."""
    Path("boom.py").write_text(BOOM)
    done = cli("inspect", "boom.py", stdin="call boom x=0\ncall no\nread boom://now\ncall no\n")
    assert done.out == ""
    log = [line.strip() for line in done.err.splitlines()]  # what a server says is indented
    failed = log.index("trio-mcp: tool 'boom' failed: internal error (see the server's log)")
    assert "Traceback (most recent call last):" in log[:failed]
    assert log[failed - 1] == "ZeroDivisionError: division by zero"
    assert log[failed + 1] == "trio-mcp: tool 'no' failed: No."
    assert "KeyError: 'Rose'" in log[failed + 2 :]
    assert [done.err.count(each) for each in ("ZeroDivisionError", "'Rose'")] == [1, 1]
    done = cli("call", "boom.py", "boom", "x=0", "--json")
    assert "ZeroDivisionError" in done.err
    assert "ZeroDivisionError" not in done.out
