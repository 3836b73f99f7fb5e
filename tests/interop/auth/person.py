"""A person who logs in at authorization servers: fills in their forms, and says yes."""

from __future__ import annotations

import asyncio
import html
import re
import sys
from urllib.parse import parse_qs, urljoin, urlsplit

import httpx2

_FORM = re.compile(r'<form[^>]*action="([^"]*)"[^>]*>(.*?)</form>', re.DOTALL)
_HIDDEN = re.compile(r'<input type="hidden" name="(\w+)" value="([^"]*)"')
_BUTTON = re.compile(r'<button type="submit"[^>]* name="(\w+)" value="([^"]*)"')
_ABORT = re.compile(r'<a href="([^"]*/abort)">')
_MOST_PAGES = 20
TIME_LIMIT = 120  # seconds, for a server that hangs


class Person:
    """Has one browser, which keeps cookies.

    Args:
        name: Who it is.
        agrees: Whether it says yes.
    """

    def __init__(self, name: str = "alice", *, agrees: bool = True) -> None:
        self.name = name
        self.agrees = agrees
        self.asked: list[dict[str, str]] = []
        """What each page was asked to show."""
        self._cookies = httpx2.Cookies()

    async def __call__(self, url: str) -> None:
        """Go to a page, and on to wherever it leads in the end."""
        back = await self.sent_back(url)
        async with httpx2.AsyncClient(timeout=TIME_LIMIT, trust_env=False) as browser:
            (await browser.get(back)).raise_for_status()

    async def sent_back(self, url: str) -> str:
        """Go to a page; returns the address that it sends the browser back to."""
        asked = parse_qs(urlsplit(url).query)
        self.asked.append({name: " ".join(values) for name, values in asked.items()})
        redirect = asked["redirect_uri"][0]
        async with httpx2.AsyncClient(
            timeout=TIME_LIMIT, trust_env=False, cookies=self._cookies
        ) as browser:
            page = await browser.get(url)
            for _ in range(_MOST_PAGES):
                if page.has_redirect_location:
                    there = urljoin(str(page.url), page.headers["location"])
                    if there.startswith(redirect):
                        return there
                    page = await browser.get(there)
                else:
                    page = await self._answer(browser, page)
            raise AssertionError(f"{url} leads nowhere")

    async def _answer(self, browser: httpx2.AsyncClient, page: httpx2.Response) -> httpx2.Response:
        page.raise_for_status()
        if not self.agrees and (abort := _ABORT.search(page.text)):
            return await browser.get(urljoin(str(page.url), html.unescape(abort[1])))
        form = _FORM.search(page.text)
        assert form is not None, page.text
        fields = dict(_HIDDEN.findall(form[2]) + _BUTTON.findall(form[2])[:1])  # the first is yes
        if 'name="login"' in form[2]:
            fields |= {"login": self.name, "password": "of no matter"}
        return await browser.post(urljoin(str(page.url), html.unescape(form[1])), data=fields)


async def _main(url: str, *, prints: bool) -> None:
    back = await Person().sent_back(url)
    if prints:
        print(back)
        return
    async with httpx2.AsyncClient(timeout=TIME_LIMIT, trust_env=False) as browser:
        while True:
            try:
                (await browser.get(back)).raise_for_status()
            except httpx2.ConnectError:  # who opened us is not listening yet
                await asyncio.sleep(0.05)
            else:
                return


# As a browser: BROWSER="python -m tests.interop.auth.person %s &". With --print it says where it
# would go in the end, and does not go there.
if __name__ == "__main__":
    asyncio.run(asyncio.wait_for(_main(sys.argv[-1], prints="--print" in sys.argv), TIME_LIMIT))
