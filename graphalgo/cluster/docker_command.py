"""Runs the `docker` command and turns its failures into errors."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from graphalgo.cluster import errors


def docker_obstacle() -> str | None:
    """Tell why no container can serve on this machine.

    Returns
    -------
    str or None
        The reason, as the end of a sentence; None when an engine answers.
    """
    if shutil.which("docker") is None:
        return "there is no docker command on this machine"
    host = os.environ.get("DOCKER_HOST", "")
    if host and not host.startswith("unix://"):
        return f"the Docker engine is another machine's (DOCKER_HOST is {host!r})"
    done = run(["info", "--format", "{{.ServerVersion}}"], seconds=30)
    if done.returncode != 0 or not done.stdout.strip():
        said = errors.last_lines(text_of(done.stderr), 1).strip()
        return f"no Docker engine answers: {said}"
    return None


def demand(
    arguments: list[str],
    failure: str,
    *,
    stdin: bytes = b"",
    password: str | None = None,
    seconds: float = 120,
) -> None:
    """Run a docker command that has to succeed.

    Raises
    ------
    ClusterError
        It does not: `failure` is what happened, and its last lines say why.
    """
    done = run(arguments, stdin=stdin, password=password, seconds=seconds)
    if done.returncode != 0:
        output = text_of(done.stdout + done.stderr)
        raise errors.from_output(failure, output, Path("/var/lib/docker"))


def run(
    arguments: list[str],
    *,
    stdin: bytes = b"",
    password: str | None = None,
    seconds: float = 120,
) -> subprocess.CompletedProcess[bytes]:
    """Run a docker command; one that takes too long fails like one that ends with an error.

    The password is put into the command's environment, which no other user can read.
    """
    environment = dict(os.environ)
    if password is not None:
        environment["POSTGRES_PASSWORD"] = password
    command = ["docker", *arguments]
    try:
        return subprocess.run(
            command,
            check=False,
            input=stdin,
            capture_output=True,
            timeout=seconds,
            env=environment,
        )
    except subprocess.TimeoutExpired as error:
        late = f"docker {arguments[0]} took longer than {seconds:g} seconds"
        said = (error.stdout or b"") + (error.stderr or b"")
        return subprocess.CompletedProcess(command, 124, b"", said + f"\n{late}".encode())


def text_of(output: bytes) -> str:
    return output.decode("utf-8", errors="replace")
