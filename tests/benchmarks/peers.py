"""Peers of the benchmarks, as parameters of tests."""

import pytest

from benchmarks.peers import Peer


def as_param(peer: Peer) -> object:
    """A peer; one of the official SDK takes long to start, and is another program."""
    marks = [pytest.mark.needs("sdk-server")] if "SDK" in peer.name else []
    return pytest.param(peer, id=peer.name, marks=marks)
