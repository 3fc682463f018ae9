"""`shieldwall serve` as a user meets it: an address, a clean end, one-line mistakes."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from serve_tools import PATIENCE, make_run
from websockets.sync.client import connect

from shieldwall.cli.report import serve_command
from shieldwall.errors import UserError
from shieldwall.serve.server import address_of, is_open_to_others, listen

COMMAND = (sys.executable, "-m", "shieldwall", "serve")


@pytest.fixture
def ctrl_c_is_heard() -> Iterator[None]:
    """Whatever started the tests: a shell's background jobs ignore Ctrl-C, and so do their children."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c_is_heard")
def test_it_prints_its_address_and_ctrl_c_ends_it_with_a_page_open(tmp_path: Path):
    path = make_run(tmp_path / "run", members=1)
    arguments = [*COMMAND, path, "--port", "0", "--no-open", "--device", "cpu"]
    with subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stderr is not None
        line = process.stdout.readline()
        address = re.fullmatch(r"serving 1 run at (http://127\.0\.0\.1:\d+/)  \(Ctrl-C ends it\)\n", line)
        assert address is not None, line + process.stderr.read()
        with connect(address[1].replace("http", "ws") + "certify", origin=address[1][:-1]):
            assert httpx.get(address[1], timeout=PATIENCE).status_code == 200
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=PATIENCE) == 0
        assert process.stdout.read() == "stopped\n"
        assert process.stderr.read() == ""


def test_a_port_in_use_is_passed_over_or_said(tmp_path: Path):
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UserError, match=f"^port {port} is in use; give another one with --port$"):
            serve_command([tmp_path], port=port)
    with listen("127.0.0.1") as first, listen("127.0.0.1") as second:
        assert first.getsockname()[1] < second.getsockname()[1] < 8_100


@pytest.mark.parametrize("host", ["no.such.host.invalid", "192.0.2.1"])
def test_a_host_that_is_not_this_machine_is_said(host: str):
    with pytest.raises(UserError, match=re.escape(host)):
        listen(host, 0)


def test_the_address_is_one_for_this_machines_browser():
    with listen("127.0.0.1", 0) as local, listen("0.0.0.0", 0) as everywhere:
        assert address_of(local) == f"http://127.0.0.1:{local.getsockname()[1]}/"
        assert address_of(everywhere) == f"http://127.0.0.1:{everywhere.getsockname()[1]}/"
        assert not is_open_to_others(local)
        assert is_open_to_others(everywhere)
    if socket.has_ipv6:
        with listen("::1", 0) as sixth:
            assert address_of(sixth) == f"http://[::1]:{sixth.getsockname()[1]}/"


def test_a_folder_that_is_no_run_is_said(tmp_path: Path):
    with pytest.raises(UserError, match="is not a run folder"):
        serve_command([tmp_path], port=0)
