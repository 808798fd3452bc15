"""Receivers know us by a signature, and its secret is kept well or not used."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import pytest

from jupyter_gpushare.hub.news.signing import Secret, SecretError
from tests.hub.news.receiver import KEY, SECRET, check_signature

if TYPE_CHECKING:
    from pathlib import Path


def written(path: Path, text: str, mode: int = 0o600) -> Path:
    """A secret's file."""
    path.write_text(text)
    path.chmod(mode)
    return path


def test_a_signature_is_that_of_the_scheme(tmp_path: Path) -> None:
    """The example that libraries of receivers are tested with comes out right."""
    secret = Secret.of_file(written(tmp_path / "secret", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"))
    signature = secret.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert signature == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_two_secrets_are_both_used_while_a_receiver_changes_over(tmp_path: Path) -> None:
    """Whichever of the two it knows, it recognizes us."""
    new = bytes(range(32, 64))
    lines = f"# the new one first\nwhsec_{base64.b64encode(new).decode()}\n\n{SECRET}"
    secret = Secret.of_file(written(tmp_path / "secret", lines))
    for key in (KEY, new):
        import time

        at = int(time.time())
        headers = {
            "webhook-id": "one",
            "webhook-timestamp": str(at),
            "webhook-signature": secret.sign("one", at, b"{}"),
        }
        check_signature(headers, b"{}", key)


@pytest.mark.parametrize(
    ("text", "mode", "problem"),
    [
        (SECRET, 0o640, r"is open to others: chmod 600 /"),
        (SECRET, 0o604, r"is open to others"),
        ("", 0o600, r"must hold 1 to 3 secrets.*openssl rand"),
        (SECRET * 4, 0o600, r"must hold 1 to 3"),
        ("a password\n", 0o600, r"line 1 is no whsec_ .*openssl"),
        ("whsec_c2hvcnQ=\n", 0o600, r"line 1 is no whsec_ with the base64 of 24 to 64"),
        (SECRET + "whsec_****\n", 0o600, r"line 2 is no"),
        ("whsec_" + "A" * 5000, 0o600, r"line 1 is no"),
        ("\xff\xfe\n", 0o600, r"line 1 is no"),
    ],
)
def test_a_secret_that_is_none_is_refused(tmp_path: Path, text: str, mode: int, problem: str) -> None:
    """The file and the cure are named, and what is in it is not."""
    path = written(tmp_path / "secret", text, mode)
    with pytest.raises(SecretError, match=problem) as raised:
        Secret.of_file(path)
    assert str(path) in str(raised.value)
    assert text.strip() not in str(raised.value) or not text


def test_what_is_no_file_is_no_secret(tmp_path: Path) -> None:
    """A missing file, a directory, a pipe: said, and never waited for."""
    import os

    os.mkfifo(tmp_path / "pipe", 0o600)
    for name in ("missing", ".", "pipe"):
        with pytest.raises(SecretError):
            Secret.of_file(tmp_path / name)


def test_a_secret_does_not_show_itself() -> None:
    """Whatever logs or prints it."""
    assert str(KEY) not in repr(Secret((KEY,)))
