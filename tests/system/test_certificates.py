"""Whom a system trusts is read once, and again where the environment names others."""

import ssl

import pytest
import truststore

from trio_mcp.system.certificates import trusted


def test_certificates_are_read_once(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    ours = trusted()
    assert trusted() is ours
    assert isinstance(ours, ssl.SSLContext | truststore.SSLContext)
    assert ours.verify_mode is ssl.CERT_REQUIRED
    assert ours.check_hostname
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    named = trusted()
    assert named is not ours
    assert trusted() is named
    assert trusted(trust_env=False) is not named
