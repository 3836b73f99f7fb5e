"""`trio-mcp inspect`, with commands from a pipe."""

from tests.cli.support import COMMAND, SHOP
from tests.support.processes import run

SCRIPT = b"""help

list tools
call say words=hello
call types {"text": "x y"}
ping
subscribe tools
quit
call say words=never
"""


async def test_commands_from_a_pipe() -> None:
    done = await run([*COMMAND, "inspect", SHOP], SCRIPT)
    assert done.returncode == 0, done.stderr
    out = done.stdout.decode()
    assert "subscribe URI" in out
    assert "Order a book." in out
    assert "returned: hello\n" in out
    assert '"text": "x y"' in out
    assert " ms\n" in out
    assert "never" not in out
    assert b"Subscribed to tools." in done.stderr


async def test_a_command_that_fails_shows_in_the_exit_status() -> None:
    script = b"call nothing\nlist nothing\ncall fail\ncall say words=on\nread a b\ncall\n"
    done = await run([*COMMAND, "inspect", SHOP], script)
    assert done.returncode == 1
    assert done.stdout == b"returned: on\n"
    told = done.stderr.decode()
    assert "no tool 'nothing'" in told
    assert "usage: list [tools|resources|prompts]" in told
    assert "tool 'fail' failed: It failed: no reason" in told
    assert "usage: read URI" in told
    assert "usage: call NAME" in told
    assert "Traceback" not in told
