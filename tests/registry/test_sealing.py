"""Sealed state: what comes back as it went, for whom, until when, and how often."""

import base64
import bisect
import logging
import sys
from typing import Any

import pytest
from cryptography.fernet import Fernet

from trio_mcp.registry.sealing import Sealer, StateRefused, hash_binding

REQUEST = {"method": "tools/call", "name": "book", "arguments": {"seats": 2}, "principal": "ann"}


class Clock:
    """A clock that stands still until it is set."""

    def __init__(self) -> None:
        self.now = 1_000_000.5

    def __call__(self) -> float:
        return self.now


def refusal(sealer: Sealer, state: Any, binding: Any = REQUEST) -> str:
    """Why a state is refused."""
    with pytest.raises(StateRefused) as caught:
        sealer.open(state, binding)
    cause = caught.value.cause
    assert str(caught.value.__cause__).startswith(f"{cause}: ")
    return cause


@pytest.mark.parametrize(
    "content",
    [
        None,
        "",
        "ü \ud800 \U0001f600",
        0,
        -(2**70),
        1.0,
        1e300,
        True,
        [],
        {"z": [1, {"": None}], "a": 2},
    ],
)
def test_content_comes_back_as_it_was(content: Any) -> None:
    sealer = Sealer()
    opened = sealer.open(sealer.seal(content, REQUEST), REQUEST).content
    assert opened == content
    assert type(opened) is type(content)
    if isinstance(content, dict):
        assert list(opened) == list(content)


def test_the_client_sees_nothing_of_the_content() -> None:
    sealer = Sealer()
    state = sealer.seal("a secret plan", REQUEST)
    assert state.isascii()
    assert b"secret" not in base64.urlsafe_b64decode(state)
    assert sealer.seal("a secret plan", REQUEST) != state


# -- binding -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "binding",
    [
        {**REQUEST, "principal": "bob"},
        {**REQUEST, "name": "cancel"},
        {**REQUEST, "arguments": {"seats": 3}},
        {**REQUEST, "arguments": {"seats": "2"}},
        {**REQUEST, "more": None},
        None,
        "REQUEST",
        [],
    ],
)
def test_state_is_good_for_its_own_request_alone(binding: Any) -> None:
    sealer = Sealer()
    state = sealer.seal(1, REQUEST)
    assert refusal(sealer, state, binding) == "foreign"
    assert sealer.open(state, REQUEST).content == 1, "a stranger's attempt spoils nothing"


def test_the_same_request_may_be_written_differently() -> None:
    sealer = Sealer()
    state = sealer.seal(1, {"a": [1.0, 2], "b": True})
    assert sealer.open(state, {"b": True, "a": (1, 2.0)}).content == 1


@pytest.mark.parametrize(("one", "other"), [(1, True), (0, False), (None, "null"), ([1], 1)])
def test_what_differs_in_json_differs_in_binding(one: Any, other: Any) -> None:
    sealer = Sealer()
    assert refusal(sealer, sealer.seal(0, one), other) == "foreign"


# -- time --------------------------------------------------------------------------------------


def test_state_expires() -> None:
    clock = Clock()
    sealer = Sealer(ttl=10, clock=clock)
    early, late = sealer.seal(1, REQUEST), sealer.seal(2, REQUEST)
    clock.now += 9.9
    assert sealer.open(early, REQUEST).content == 1
    clock.now += 0.1
    assert refusal(sealer, late) == "expired"
    assert refusal(sealer, early) == "expired"


def test_the_one_that_seals_says_how_long() -> None:
    clock, keys = Clock(), [Sealer.generate_key()]
    state = Sealer(keys, ttl=10, clock=clock).seal(1, REQUEST)
    clock.now += 11
    assert refusal(Sealer(keys, ttl=1000, clock=clock), state) == "expired"


# -- keys --------------------------------------------------------------------------------------


def test_keys_are_rotated() -> None:
    old, new = Sealer.generate_key(), Sealer.generate_key().encode()
    before, during, after = Sealer([old]), Sealer([new, old]), Sealer([new])
    assert during.open(before.seal(1, REQUEST), REQUEST).content == 1
    assert after.open(during.seal(2, REQUEST), REQUEST).content == 2
    assert refusal(after, before.seal(3, REQUEST)) == "unknown key"
    assert refusal(before, during.seal(4, REQUEST)) == "unknown key"


def test_a_state_of_another_key_is_told_from_one_that_was_changed() -> None:
    ours = Sealer()
    state, theirs = ours.seal(1, REQUEST), Sealer().seal(1, REQUEST)
    assert refusal(ours, theirs) == "unknown key"
    for changed in (state[:-4] + "AAA=", theirs[:8] + "x" * 100, state[:8] + theirs[8:]):
        assert refusal(ours, changed) == "tampered"


def test_each_process_has_a_key_of_its_own_if_none_is_given() -> None:
    assert refusal(Sealer(), Sealer().seal(1, REQUEST)) == "unknown key"
    assert Sealer.generate_key() != Sealer.generate_key()


@pytest.mark.parametrize("bad", ["", "short", "ü" * 44, "A" * 42, b"\xff" * 44, None, 7])
def test_bad_keys_are_refused_without_being_told(bad: Any) -> None:
    with pytest.raises(
        ValueError, match=r"make one with cryptography\.fernet\.Fernet\.generate_key\(\)"
    ) as caught:
        Sealer([Sealer.generate_key(), bad])
    assert not bad or str(bad) not in str(caught.value)
    assert caught.value.__suppress_context__


def test_a_key_alone_is_no_list_of_keys() -> None:
    with pytest.raises(ValueError, match="a list, even of one key: put it in brackets"):
        Sealer(Sealer.generate_key())
    with pytest.raises(ValueError, match="generate_key"):
        Sealer([])


@pytest.mark.parametrize(
    "options",
    [{"ttl": 0}, {"ttl": -1}, {"ttl": float("inf")}, {"ttl": float("nan")}],
)
def test_numbers_out_of_range_are_refused(options: Any) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        Sealer(**options)


def test_what_was_sealed_for_another_purpose_is_foreign() -> None:
    key = Sealer.generate_key()
    name = Sealer([key]).seal(1, REQUEST)[:8]
    for other in (b"", b"null", b"[]", b"\xff", b'["session", 1]', b'["trio-mcp request state 1"]'):
        assert refusal(Sealer([key]), name + Fernet(key).encrypt(other).decode()) == "foreign"


# -- size and shape ----------------------------------------------------------------------------


@pytest.mark.parametrize("junk", ["", "=", "x", "gAAAAA==", "ü", "\ud800", "\n", None, 7, b"", []])
def test_whatever_comes_is_refused_in_the_same_words(junk: Any) -> None:
    sealer = Sealer()
    state = sealer.seal(1, REQUEST)
    texts = set()
    for presented, binding in ((junk, REQUEST), (state, "another request")):
        with pytest.raises(StateRefused) as caught:
            sealer.open(presented, binding)
        texts.add(str(caught.value))
    assert len(texts) == 1


def test_the_log_tells_the_reason(caplog: pytest.LogCaptureFixture) -> None:
    try:
        Sealer().open("x", REQUEST)
    except StateRefused:
        logging.getLogger("test").exception("refused")
    assert "tampered: " in caplog.text


def can_seal(sealer: Sealer, length: int) -> bool:
    """Whether a text of so many characters can be sealed."""
    try:
        sealer.seal("x" * length, REQUEST)
    except ValueError:
        return False
    return True


def test_what_can_be_sealed_can_be_opened_and_more_is_refused() -> None:
    sealer = Sealer(clock=Clock())  # the time is written with more digits or fewer
    longest = bisect.bisect_left(range(300_000), True, key=lambda n: not can_seal(sealer, n)) - 1
    state = sealer.seal("x" * longest, REQUEST)
    assert 256 * 1024 - 100 < len(state) <= 256 * 1024
    assert sealer.open(state, REQUEST).content == "x" * longest
    with pytest.raises(ValueError, match="keep large data on the server"):
        sealer.seal("x" * (longest + 1), REQUEST)


@pytest.mark.parametrize("much", ["x" * 300_000, [0] * 300_000, {"a": [["x" * 200]] * 2000}])
def test_what_is_much_too_long_is_not_worked_on(much: Any) -> None:
    with pytest.raises(ValueError, match="keep large data on the server"):
        Sealer().seal(much, object())  # which could not be taken in


def test_a_binding_can_be_hashed_beforehand() -> None:
    sealer, bound = Sealer(), hash_binding({"a": 1, "b": [2.0]})
    assert sealer.open(sealer.seal(1, bound), {"b": [2], "a": 1}).content == 1
    assert sealer.open(sealer.seal(2, {"b": [2], "a": 1}), bound).content == 2
    with pytest.raises(StateRefused):
        sealer.open(sealer.seal(3, bound), {"a": 1})
    with pytest.raises(TypeError, match="must be JSON"):
        hash_binding(object())


def test_a_state_that_is_too_long_is_not_looked_at() -> None:
    key = Sealer.generate_key()
    long = Fernet(key).encrypt(bytes(200_000)).decode()
    with pytest.raises(StateRefused) as caught:
        Sealer([key]).open(long, REQUEST)
    assert "longer than 262144" in str(caught.value.__cause__)


def endless() -> list[Any]:
    """A list that holds itself."""
    value: list[Any] = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        [float("-inf")],
        {1: 2},
        {"a": {None: 1}},
        {1},
        b"x",
        object(),
        pytest.param(endless(), id="endless"),
        pytest.param(10**5000, id="many digits"),
    ],
)
def test_only_json_is_sealed(value: Any) -> None:
    sealer = Sealer()
    with pytest.raises(TypeError, match="must be JSON"):
        sealer.seal(value, 1)
    with pytest.raises(TypeError, match="must be JSON"):
        sealer.seal(1, value)
    with pytest.raises(TypeError, match="must be JSON"):
        sealer.open(sealer.seal(1, 1), value)


# -- the package -------------------------------------------------------------------------------


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.fernet", None)
    message = r"pip install 'trio-mcp\[ask\]'"
    sealer = Sealer()  # nothing is sealed yet
    with pytest.raises(ModuleNotFoundError, match=message):
        sealer.seal(1, REQUEST)
    with pytest.raises(ModuleNotFoundError, match=message):
        sealer.open("x", REQUEST)
    with pytest.raises(ModuleNotFoundError, match=message):
        Sealer([Sealer.generate_key()])
