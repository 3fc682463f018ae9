"""`--on ray`: the bytes of one process, from certify and from a whole study, whatever is killed."""

import os
import signal
import socket
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from cli_tools import Shieldwall, finish, free_port, line_count, process, timeless, wait_until
from test_cli_study import RUN, as_the_paper_s, filled, mine, results, resumed  # noqa: F401

from shieldwall.runs.verify import verify_run

pytest.importorskip("ray", reason="ray is not installed: pip install 'shieldwall[cluster]'")
pytestmark = pytest.mark.slow

OWN = {"RAY_ADDRESS": "local", "RAY_gcs_rpc_server_reconnect_timeout_s": "5"}
"""A cluster of its own, whatever runs on this machine; without a head it ends in 5 s, not in 60."""


def below(pid: int) -> dict[int, str]:
    """The processes that this one started, and those that they started, with what they are."""
    found: dict[int, str] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            found[int(folder.name)] = f"{parent} {(folder / 'cmdline').read_bytes().decode()}"
        except (OSError, ValueError):
            continue
    ours = {pid}
    for _ in range(9):
        ours |= {each for each, said in found.items() if int(said.split()[0]) in ours}
    return {each: found[each] for each in ours if each in found}


def kill(pid: int, who: str) -> None:
    victim = pid if who == "driver" else next(each for each, said in below(pid).items() if who in said)
    os.kill(victim, signal.SIGKILL)


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def wait_for_the_end_of(pids: Iterable[int]) -> None:
    while not all(map(is_gone, pids)):
        time.sleep(0.05)


def killed_on_the_way(who: str, began: Callable[[], bool], *command: str | Path) -> None:
    """Run the command until it has begun, kill one of its processes, and see that all of them end."""
    with process("-m", "shieldwall", *command, "--on", "ray", "--jobs", "2", **OWN) as started:
        wait_until(began, started)
        all_of_it = below(started.pid)
        kill(started.pid, who)
        assert finish(started).code != 0
        wait_for_the_end_of(all_of_it)


def test_certify_whose_worker_is_killed_goes_on_to_the_bytes_of_one_process(
    shieldwall: Shieldwall, trained: Path
) -> None:
    options = ("certify", trained, "--n", "2000", "--limit", "12")

    def began() -> bool:
        return any(line_count(file) > 1 for file in trained.glob("certificates.shards/*/we.tsv"))

    killed_on_the_way("ray::_perform", began, *options)
    assert not (trained / "certificates").exists()
    with process("-m", "shieldwall", *options, "--on", "ray", "--jobs", "2", **OWN) as started:
        assert finish(started).code == 0
    assert shieldwall(*options, "--to", "whole").code == 0
    assert timeless(trained) == timeless(trained, folder="whole")
    assert verify_run(trained).status == "verified"


@pytest.mark.parametrize("who", ["ray::_perform", "driver", "gcs_server"])
def test_a_study_killed_on_the_way_goes_on_to_the_same(who: str, filled: Path, mine: Path) -> None:  # noqa: F811
    """Here or there: what Ray began, processes of this machine finish."""

    def began() -> bool:
        return any(Path("runs").rglob("training.jsonl"))

    if who == "ray::_perform":  # Ray does the step again
        with process(
            "-m", "shieldwall", "study", "run", mine, "--on", "ray", "--jobs", "2", **OWN
        ) as started:
            wait_until(lambda: any(Path("runs").rglob("training.jsonl")), started)
            kill(started.pid, who)
            assert finish(started).code == 0
    else:
        killed_on_the_way(who, began, "study", "run", mine)
        assert resumed(Path()).code == 0
    assert results(Path()) == results(filled)


def test_a_cluster_elsewhere(shieldwall: Shieldwall, trained: Path, tmp_path: Path) -> None:
    """Its address is that of a Ray client; it works in the folder that the command was given in."""
    port, token = free_port(), {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": 64 * "0"}
    head = (
        *(
            "-m",
            "ray.scripts.scripts",
            "start",
            "--head",
            "--block",
            "--num-cpus",
            "2",
            "--port",
            str(free_port()),
        ),
        *("--include-dashboard", "false", "--ray-client-server-port", str(port), "--disable-usage-stats"),
    )
    with process(*head, cwd=tmp_path, **token) as cluster:
        try:
            wait_until(lambda: is_listening(port), cluster)
            address = f"ray://127.0.0.1:{port}"
            command = ("certify", trained, "--on", address, "--jobs", "2")
            with process("-m", "shieldwall", *command, **token) as started:
                done = finish(started)
        finally:
            all_of_it = below(cluster.pid)
            cluster.terminate()
            finish(cluster)
    assert done.code == 0, done
    assert shieldwall("certify", trained, "--to", "whole").code == 0
    assert timeless(trained) == timeless(trained, folder="whole")
    wait_for_the_end_of(all_of_it)


def test_the_whole_table_by_processes_and_by_ray_to_equal_bytes() -> None:
    """From nothing within four minutes on two cores."""
    tables = []
    for name, options in (("here", []), ("there", ["--on", "ray"])):
        Path(name).mkdir()
        tables.append(as_the_paper_s(Path(name), run=options, **OWN))
    assert tables[0] == tables[1]
    assert results(Path("here")) == results(Path("there"))
    assert len(list(Path("there/runs").glob("*.tar.xz"))) == 18
