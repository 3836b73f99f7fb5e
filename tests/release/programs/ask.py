"""`ask`: a tool that asks, in the revision that has it called again with the answer."""

import trio

from trio_mcp import Context, Handlers, Registry, connect

registry = Registry("desk")


@registry.tool
async def order(context: Context) -> str:
    answer = await context.elicit("Whose is it?", str)
    return f"It is {answer.value}'s."


async def ada(params):
    return {"action": "accept", "content": {"value": "Ada"}}


async def main() -> None:
    handlers = Handlers(elicitation=ada)
    async with connect(registry, era="modern", handlers=handlers) as client:
        assert (await client.call_tool("order")).text == "It is Ada's."


trio.run(main)
