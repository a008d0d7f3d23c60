"""A DSN that leads nowhere is told in a sentence, and its password never."""

from __future__ import annotations

import socket
from collections.abc import Callable

import pytest

from graphalgo.engine.errors import GraphAlgoError
from graphalgo.install import InstallError, check, install, uninstall
from graphalgo.install.connection import psql, without_password

SECRET = "hunter2"


@pytest.fixture
def nobody() -> str:
    """A DSN at which nobody answers."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    return f"postgresql://me:{SECRET}@127.0.0.1:{port}/mine"


@pytest.mark.parametrize("action", [install, uninstall])
def test_a_dsn_that_does_not_answer_is_an_error(
    action: Callable[[str], object], nobody: str
) -> None:
    with pytest.raises(InstallError) as caught:
        action(nobody)
    assert caught.value.sqlstate == "08001"
    assert "host 127.0.0.1, port " in caught.value.message
    assert "database mine" in caught.value.message
    assert SECRET not in str(caught.value)


def test_check_reports_a_server_that_does_not_answer(nobody: str) -> None:
    (finding,) = check(nobody)
    assert finding.ok is False
    assert "database mine" in finding.message
    assert finding.remedy is not None
    assert SECRET not in finding.message + finding.remedy


def test_a_dsn_that_cannot_be_read_is_refused_without_repeating_it() -> None:
    with pytest.raises(InstallError) as caught:
        install(f"host=localhost password {SECRET}")
    assert caught.value.sqlstate == "22023"
    assert SECRET not in str(caught.value)


def test_install_errors_are_of_the_one_family() -> None:
    assert issubclass(InstallError, GraphAlgoError)


def test_commands_are_written_without_password_and_quoted_for_the_shell() -> None:
    dsn = f"host=h user='o\\'neil' password={SECRET}"
    assert SECRET not in without_password(dsn)
    assert psql("host=h", "select 'x';") == "psql 'host=h' -c 'select '\\''x'\\'';'"
