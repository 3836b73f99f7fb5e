"""An extension from outside this package: calls that are answered at once and collected later.

It uses nothing but what `trio_mcp` exports. Run as a program, it serves on stdio: `later.py`.
"""

from __future__ import annotations

import secrets
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import trio

from trio_mcp import Context, ElicitResult, Limits, McpError, Registry, serve
from trio_mcp.extending import (
    CallChannel,
    ClientExtension,
    ExtensionMethod,
    ExtensionRequest,
    ExtensionServing,
    ExtensionSubscription,
    Method,
    PendingCall,
    ServerExtension,
)

LATER = "com.example/later"
GET = Method(name="later/get", target="laterId", repeatable=True)
ANSWER = Method(name="later/answer", target="laterId")
CANCEL = Method(name="later/cancel", target="laterId")
COUNT = Method(name="later/count", repeatable=True)
ASK = Method(name="later/ask", may_ask=True)
WATCH = Method(name="later/watch", era="legacy")
MODERN_ONLY = Method(name="later/modern", era="modern", batchable=False)
TRY = Method(name="later/try")
METHODS = (GET, ANSWER, CANCEL, COUNT, ASK, WATCH, MODERN_ONLY, TRY)
CHANGED = "notifications/later"
EMPTIED = "notifications/later/emptied"
NUDGED = "notifications/later/nudged"
NUDGE = "notifications/later/nudge"


class Job(CallChannel):
    """A call that goes on."""

    can_ask = True
    log_level = "info"

    def __init__(self, serving: ExtensionServing, owner: str | None) -> None:
        self.id = secrets.token_hex(16)
        self.owner = owner
        self.state: dict[str, Any] = {"status": "working"}
        self.questions: dict[str, dict[str, Any]] = {}
        self.answers: dict[str, trio.Event] = {}
        self.given: dict[str, Any] = {}
        self.told: list[Any] = []
        self.scope = trio.CancelScope()
        self.serving = serving

    def show(self) -> dict[str, Any]:
        """What a client gets to see of it."""
        asked = {"inputRequests": self.questions} if self.questions else {}
        return {"laterId": self.id, "told": self.told, **self.state, **asked}

    def move(self, **state: Any) -> None:
        """Go on to another state, and let it be known."""
        self.state = state
        self.serving.changed("laterIds", self.id)

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Note it."""
        self.told.append(progress)
        self.serving.changed("laterIds", self.id)

    async def log(self, level: Any, data: Any, logger: str | None) -> None:
        """Note it."""
        self.told.append(data)

    async def ask(self, key: str, method: str, params: dict[str, Any]) -> Any:
        """Have the client come and answer."""
        self.answers[key] = trio.Event()
        self.questions[key] = {"method": method, "params": params}
        self.move(status="input_required")
        await self.answers[key].wait()
        self.move(status="working")
        return self.given[key]

    async def run(self, request: ExtensionRequest) -> None:
        """Run the call to its end."""
        with self.scope:
            try:
                result = await self.serving.call(request, channel=self, timeout=1e9)
            except McpError as error:
                self.move(status="failed", error={"code": error.code, "message": error.message})
            else:
                self.move(status="completed", result=result)
        if self.scope.cancelled_caught:
            self.move(status="cancelled")


class Later(ServerExtension):
    """The server's side."""

    identifier = LATER
    serving: ExtensionServing
    wraps = ("tools/call", "prompts/get")
    result_types = ("later",)
    sends = (NUDGED,)

    def __init__(self) -> None:
        self.settings = {"most": 10}
        self.jobs: dict[str, Job] = {}
        self.nudges: list[Any] = []
        self.life: list[str] = []

    def methods(self) -> Sequence[ExtensionMethod]:
        """What clients may ask."""
        rows = {
            GET: self.get,
            ANSWER: self.answer,
            CANCEL: self.cancel,
            ASK: self.ask,
            WATCH: self.watch,
            MODERN_ONLY: self.count,
            TRY: self.attempt,
        }
        methods = [ExtensionMethod(row=row, handler=handler) for row, handler in rows.items()]
        return [*methods, ExtensionMethod(row=COUNT, handler=self.count, open_to_all=True)]

    def notifications(self) -> Mapping[str, Any]:
        """What clients may tell."""
        return {NUDGE: self.nudge}

    def subscriptions(self) -> Sequence[ExtensionSubscription]:
        """What clients may subscribe to."""
        return [
            ExtensionSubscription(
                key="laterIds", notification=CHANGED, params=self.job_params, accept=self.accept
            ),
            ExtensionSubscription(
                key="laterEmptied",
                notification=EMPTIED,
                params=self.emptied_params,
                has_list=False,
            ),
        ]

    def check_option(self, kind: str, name: str, value: Any) -> Any:
        """Take `True`, or `"always"`."""
        if kind not in ("tool", "prompt") or value not in (True, "always"):
            raise ValueError(f"must be True or 'always', on a tool or a prompt, not {value!r}")
        return {"always": value == "always"}

    def meta_of(self, kind: str, name: str, option: Any) -> Mapping[str, Any]:
        """Show it."""
        return {LATER: option}

    @asynccontextmanager
    async def lifespan(self, serving: ExtensionServing) -> AsyncIterator[ExtensionServing]:
        """Live as long as serving does."""
        self.life.append("opened")
        self.serving = serving
        try:
            yield serving
        finally:
            self.life.append("closed")

    async def around(
        self, request: ExtensionRequest, proceed: Callable[[], Awaitable[dict[str, Any]]]
    ) -> Mapping[str, Any]:
        """Do later what may be done later."""
        if request.option is None:
            result = await proceed()
            if request.settings is not None:
                result["_meta"] = {**result.get("_meta", {}), LATER: {"now": True}}
            return result
        if request.settings is None and not request.option["always"]:
            return await proceed()
        request.require()
        serving: ExtensionServing = request.state
        job = Job(serving, request.principal)
        self.jobs[job.id] = job
        serving.nursery.start_soon(job.run, request)
        return {"resultType": "later", **job.show()}

    def find(self, request: ExtensionRequest) -> Job:
        """Find the job that a request is about."""
        job = self.jobs.get(str(request.params.get("laterId")))
        if job is None or job.owner != request.principal:
            raise McpError(-32602, "Job not found")
        return job

    async def get(self, request: ExtensionRequest) -> dict[str, Any]:
        """How is it?"""
        return self.find(request).show()

    async def answer(self, request: ExtensionRequest) -> dict[str, Any]:
        """Here is what it wants to know."""
        job = self.find(request)
        for key, given in request.params["inputResponses"].items():
            if job.questions.pop(key, None) is not None:
                job.given[key] = given
                job.answers[key].set()
        return {}

    async def cancel(self, request: ExtensionRequest) -> dict[str, Any]:
        """Enough."""
        self.find(request).scope.cancel()
        return {}

    async def count(self, request: ExtensionRequest) -> dict[str, Any]:
        """How many are there, and who wants to know?"""
        return {"count": len(self.jobs), "settings": request.settings, "seen": dict(request.meta)}

    async def ask(self, request: ExtensionRequest) -> dict[str, Any]:
        """Ask something during a method."""
        answer: ElicitResult[str] = await request.context.elicit("Which colour?", str)
        await request.context.notify(NUDGED, {"colour": answer.value})
        return {"colour": answer.value}

    async def watch(self, request: ExtensionRequest) -> dict[str, Any]:
        """Tell a legacy session."""
        if request.params.get("off"):
            request.unwatch("laterIds", self.find(request).id)
        else:
            request.watch("laterIds", self.find(request).id)
        return {}

    async def attempt(self, request: ExtensionRequest) -> Any:
        """Do whatever a handler should not do."""
        how = request.params.get("how")
        if how == "raise":
            raise OSError("/etc/secret")
        if how == "sleep":
            await trio.sleep_forever()
        results: dict[Any, Any] = {"number": 5, "set": {"odd": {1}}, "nan": {"odd": float("nan")}}
        return results[how]

    def nudge(self, request: ExtensionRequest) -> None:
        """Take note."""
        if request.params.get("fail"):
            raise OSError("nudged too hard")
        self.nudges.append(request.params.get("how"))

    async def accept(self, request: ExtensionRequest, values: Sequence[str]) -> Collection[str]:
        """Tell everybody of their own."""
        if "refuse" in values:
            raise McpError(-32602, "No")
        if "fail" in values:
            raise OSError("/etc/secret")
        if "wait" in values:
            await trio.sleep_forever()
        mine = [id for id in values if id in self.jobs]
        return [id for id in mine if self.jobs[id].owner == request.principal]

    async def job_params(self, request: ExtensionRequest, value: str | None) -> dict[str, Any]:
        """How it is."""
        assert value is not None
        return self.jobs[value].show()

    async def emptied_params(self, request: ExtensionRequest, value: str | None) -> Any:
        """Tell it unless there is something."""
        return None if self.jobs else {"asked": request.request_id}


class LaterClient(ClientExtension):
    """The client's side."""

    identifier = LATER
    subscriptions = ("laterIds", "laterEmptied")

    def __init__(self) -> None:
        self.settings = {"patience": 3}
        self.result_types = {"later": ("tools/call",)}
        self.changed = trio.Event()
        self.told: list[dict[str, Any]] = []
        self.life: list[str] = []

    def methods(self) -> Sequence[Method]:
        """What may be asked."""
        return METHODS

    def notifications(self) -> Mapping[str, Any]:
        """What is heard."""
        return {CHANGED: self.take, EMPTIED: self.take, NUDGED: self.take}

    def take(self, params: dict[str, Any]) -> None:
        """Wake all that wait."""
        self.told.append(params)
        self.changed.set()
        self.changed = trio.Event()
        if params.get("colour") == "fail":
            raise OSError("cannot hear that")

    @asynccontextmanager
    async def lifespan(self, client: Any) -> AsyncIterator[None]:
        """Live as long as the connection."""
        self.life.append(client.revision)
        try:
            yield
        finally:
            self.life.append("closed")

    async def finish(self, call: PendingCall, result: dict[str, Any]) -> dict[str, Any]:
        """Wait for news until it is done; answer what it asks."""
        params = {"laterId": result["laterId"]}
        async with AsyncExitStack() as stack:
            if call.client.era == "modern":
                listed = {"laterIds": [result["laterId"]]}
                stream = await stack.enter_async_context(call.client.subscribe(extensions=listed))
                assert stream.extensions == listed
            else:
                await call.client.request("later/watch", params)
            try:
                return await self.collect(call, params)
            except trio.Cancelled:
                with trio.move_on_after(1, shield=True):
                    await call.client.request("later/cancel", params)
                raise

    async def collect(self, call: PendingCall, params: dict[str, Any]) -> dict[str, Any]:
        """Ask how it is, whenever that has changed."""
        answered: set[str] = set()
        while True:
            changed = self.changed
            job = await call.client.request("later/get", params)
            asked = job.get("inputRequests", {})
            open_ = {key: asked[key] for key in asked if key not in answered}
            answered |= set(open_)
            given = await call.answer(open_) if open_ else {}
            if given:
                await call.client.request("later/answer", {**params, "inputResponses": given})
            elif job["status"] == "completed":
                final: dict[str, Any] = job["result"]
                return final
            elif job["status"] in ("failed", "cancelled"):
                error = job.get("error", {"code": -32603, "message": job["status"]})
                raise McpError(error["code"], error["message"])
            else:
                await changed.wait()


def make(extension: ServerExtension | None = None, **options: Any) -> Registry:
    """A registry with tools for now and for later."""
    registry = Registry("jobs", extensions=[extension or Later()], **options)

    @registry.tool
    async def add(a: int, b: int) -> int:
        """Add now."""
        return a + b

    @registry.tool(extensions={LATER: True})
    async def paint(thing: str, context: Context) -> str:
        """Paint something, in the colour that the client names."""
        await context.progress(1, 2)
        await context.info("painting")
        colour = await context.elicit("Which colour?", str)
        await context.progress(2, 2)
        return f"{thing} is {colour.value}"

    @registry.tool(extensions={LATER: "always"}, timeout=10)
    async def slow() -> str:
        """Take longer than a call may."""
        await trio.sleep(60)
        return "done"

    @registry.tool(extensions={LATER: True})
    async def fail(how: str) -> str:
        """Fail."""
        if how == "protocol":
            raise McpError(-32000, "no such luck")
        if how == "hang":
            await trio.sleep_forever()
        raise OSError("/etc/secret")

    return registry


if __name__ == "__main__":
    trio.run(lambda: serve(make(), limits=Limits(eof_grace=5.0)))
    sys.exit(0)
