"""What is kept of logins, and how many of one person."""

from __future__ import annotations

import time

import pytest

from trio_mcp.auth.proxy.grants import MAX_LOGINS, Grant, Grants, Lost, ProviderTokens
from trio_mcp.store.memory import MemoryStore

pytestmark = pytest.mark.requirement("P3")


async def test_one_person_has_so_many_logins_and_ends_none_of_another() -> None:
    grants, now = Grants(MemoryStore(), "logins", ["secret"], 1000.0), time.time()

    async def log_in(subject: str, used: float) -> str:
        id = grants.new_id(subject)
        grant = Grant(
            id=id,
            subject=subject,
            name=None,
            email=None,
            claims={},
            client="client",
            scopes=(),
            redirect="https://app.example/callback",
            challenge="challenge",
            began=used,
            used=used,
            tokens=ProviderTokens(access="token"),
        )
        await grants.begin(grant)
        return id

    bob = await log_in("bob", now - 100.0)
    oldest, *others = [
        await log_in("alice", now - 99.0 + number) for number in range(MAX_LOGINS + 1)
    ]
    with pytest.raises(Lost):
        await grants.get(oldest)
    for id in (bob, *others):
        assert (await grants.get(id))[0].id == id
