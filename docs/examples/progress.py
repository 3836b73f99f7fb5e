"""Progress: how far a long call is, for callers that want to know."""

import trio

from trio_mcp import Context, Registry, serve

registry = Registry("archive", version="1.0")


@registry.tool
async def count_words(texts: list[str], context: Context) -> int:
    """Count the words of texts, one after the other."""
    words = 0
    for done, text in enumerate(texts, 1):
        words += len(text.split())
        await context.progress(done, total=len(texts), message=f"{words} words so far")
    return words


@registry.tool
async def fetch(pages: list[str], context: Context) -> int:
    """Fetch pages side by side."""
    fetched = 0

    async def fetch_one(page: str) -> None:
        nonlocal fetched
        await trio.sleep(0.001 * len(page))  # stands for the network
        fetched += 1
        await context.progress(fetched, total=len(pages), message=page)

    async with trio.open_nursery() as nursery:
        for page in pages:
            nursery.start_soon(fetch_one, page)
    return fetched


@registry.tool
def factorial(number: int, context: Context) -> str:
    """Multiply in a worker thread, and report from there."""
    product = 1
    for factor in range(1, number + 1):
        trio.from_thread.check_cancelled()  # a thread goes on unless it asks
        product *= factor
        trio.from_thread.run(context.progress, factor, number)
    return str(product)


if __name__ == "__main__":
    trio.run(serve, registry)
