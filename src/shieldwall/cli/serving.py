"""`serve`: a live page of trained runs."""

import os
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from shieldwall.cli.options import DataDir, Device, console


def serve_command(
    runs: Annotated[
        list[Path],
        typer.Argument(
            help="Trained run folders or pretrained names on one data set, such as several sigmas."
        ),
    ],
    port: Annotated[
        int | None, typer.Option(help="Port; by default 8080, or the next free one.", min=0, max=65_535)
    ] = None,
    host: Annotated[
        str, typer.Option(help="Address to listen on; 0.0.0.0 lets other machines connect.")
    ] = "127.0.0.1",
    data_dir: DataDir = None,
    device: Device = None,
    open_page: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the page in a browser, if there is a screen.")
    ] = True,
) -> None:
    """Show a local page: draw, choose or upload an image and watch its certificate grow.

    Example: `shieldwall serve runs/mnist-gaussian-0.25 runs/mnist-gaussian-0.5`. Ctrl-C ends it.
    """
    from shieldwall.extras import require
    from shieldwall.runs.pretrained import resolve_run

    require("serve", "the live page")
    from shieldwall.serve.server import address_of, is_open_to_others, listen, server_for
    from shieldwall.serve.service import load_service

    with listen(host, port) as sock:
        service = load_service([resolve_run(run) for run in runs], data_dir, device)
        address = address_of(sock)
        if not len(service.test):
            advice = f"run `shieldwall data fetch {service.data}` to download them"
            console.print(
                f"{service.data} is not on this machine: no test images to choose; {advice}", soft_wrap=True
            )
        if is_open_to_others(sock):
            console.print("warning: anyone who can reach this machine can use the page", soft_wrap=True)
        console.print(
            f"serving {len(service.runs)} run{'s' * (len(runs) > 1)} at {address}  (Ctrl-C ends it)",
            soft_wrap=True,
        )
        if open_page and _has_screen():
            threading.Timer(0.5, _open, [address]).start()
        with suppress(KeyboardInterrupt):
            server_for(service, host).run(sockets=[sock])
        console.print("stopped")


def _has_screen() -> bool:
    return sys.platform in ("darwin", "win32") or any(
        os.environ.get(variable) for variable in ("DISPLAY", "WAYLAND_DISPLAY")
    )


def _open(address: str) -> None:
    import webbrowser

    webbrowser.open(address)
