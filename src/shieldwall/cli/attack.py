"""`attack`: what an attacker finds, beside what is certified."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from shieldwall.cli.options import DataDir, Device, NoiseSeed, RunFolder, TrustCode, console, numbers


def attack_command(
    run: RunFolder,
    lengths: Annotated[
        str, typer.Option(help="L2 lengths of the attack, such as 0.25,0.5; by default 1 to 4 times sigma.")
    ] = "",
    vote: Annotated[str, typer.Option(help="The vote that is attacked: we, mme, member-1, ...")] = "we",
    steps: Annotated[int, typer.Option(help="PGD steps.")] = 20,
    samples: Annotated[int, typer.Option(help="Noise samples of each gradient.")] = 32,
    n: Annotated[int, typer.Option(help="Noise samples that judge each attacked image.")] = 1_000,
    every: Annotated[int | None, typer.Option(help="Attack only every K-th test input.")] = None,
    limit: Annotated[int | None, typer.Option(help="Attack at most N inputs.")] = None,
    seed: NoiseSeed = None,
    data_dir: DataDir = None,
    device: Device = None,
    trust_code: TrustCode = False,
) -> None:
    """Attack the smoothed classifier by PGD: an upper bound on robust accuracy, above certified accuracy.

    The answers are written to `attack/VOTE.tsv` in the run folder, and `report --plot` draws them.
    Example: `shieldwall attack runs/demo --limit 100`
    """
    from shieldwall.results.attacks import FOLDER
    from shieldwall.results.record import FOLDER as CERTIFICATES
    from shieldwall.results.record import read
    from shieldwall.runs.attack import attack_run
    from shieldwall.runs.pretrained import resolve_run

    path = resolve_run(run, to_write=True)
    attack = attack_run(
        path, vote=vote, lengths=numbers("--lengths", lengths), steps=steps, samples=samples, n=n,
        every=every, limit=limit, seed=seed, data_dir=data_dir, device=device, console=console,
    )  # fmt: skip
    certificates = attack.certificates_of(read(path).get(vote) if (path / CERTIFICATES).is_dir() else None)
    table = Table("L2 length", "not broken, %", box=None, header_style="bold")
    cells = [[f"{length:g}", f"{100 * share:.1f}"] for length, share in zip(attack.lengths, attack.accuracy)]
    if certificates is not None:
        table.add_column("certified, %")
        for row, share in zip(cells, certificates.certified_accuracy(None, attack.lengths), strict=True):
            row.append(f"{100 * share:.1f}")
        held = certificates.correct & (certificates.radii > attack.lengths[:, None])
        if broken := int((held & attack.is_broken).any(axis=0).sum()):
            console.print(
                f"warning: {broken} inputs are broken within their certified radius", soft_wrap=True
            )
    for row in cells:
        table.add_row(*row)
    console.print(table)
    console.print(f"answers: {path / FOLDER / vote}.tsv", soft_wrap=True)
