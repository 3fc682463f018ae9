"""members -> diagnosis: what the theory says about a trained run, beside its certificates.

One pass over the test inputs. The certificates are those of `certify_run` with the same seed, n0, n and
alpha; the theory's own estimates use other noise.
"""

import math
import time
from pathlib import Path

from rich.console import Console

from shieldwall.console import QUIET, progress_bar
from shieldwall.ensembles.votes import default_votes
from shieldwall.errors import UserError, check
from shieldwall.noise.distributions import Gaussian
from shieldwall.recipes import Certification
from shieldwall.results.checks import Sums
from shieldwall.runs import environment
from shieldwall.runs.folder import RunFolder
from shieldwall.runs.trained import TrainedRun, noise_of
from shieldwall.theory.diagnosis import Diagnosis, diagnose_input

DEFAULT_INPUTS = 100  # spread evenly over the test inputs
DEFAULT_MAX_N = 10_000  # samples of a certificate: enough to compare two votes on the same noise


def diagnose_run(path: Path | str, *, r: float | None = None, draws: int = 200, n: int | None = None,
                 every: int | None = None, limit: int | None = None, seed: int | None = None,
                 data_dir: Path | None = None, device: str | None = None,
                 console: Console = QUIET) -> Diagnosis:  # fmt: skip
    """What the theory says about a trained run, with `r`, the radius of ERI, by default sigma, and `draws`
    noise samples for the gradients of soft-smoothed members. Only its environment file, and the digest of
    that, are written."""
    run = RunFolder(path)
    recipe, noise = run.recipe, noise_of(run.recipe)
    if recipe.members < 2:
        raise UserError(f"the theory is of two members or more; {run.path} has {recipe.members}")
    if not isinstance(noise, Gaussian):
        raise UserError(f"the theory is of Gaussian noise; {run.path} was trained with {recipe.noise} noise")
    r = noise.sigma if r is None else r
    check(0 < r < math.inf, "the radius must be a positive number", r)
    trained = TrainedRun.open(run, data_dir=data_dir, device=device)
    test, which = trained.dataset.test, recipe.certification
    n = min(which.n, DEFAULT_MAX_N) if n is None else n
    if every is None:
        every = 1 if limit is not None else math.ceil(len(test) / DEFAULT_INPUTS)
    which = Certification(which.n0, n, which.alpha, every=every, limit=limit)
    plan, indices = trained.plan(which, seed), which.inputs(len(test))
    images = {index: trained.image(noise, index).to(trained.device) for index in indices}

    rows, votes = [], trained.votes([vote.name for vote in default_votes(recipe.members)])
    with run.lock():
        began = time.perf_counter()
        all_counts = trained.sampler(plan, votes).counts(images.items())
        with progress_bar(console, f"diagnosing at {len(images)} inputs", len(images)) as show:
            for done, counts in enumerate(all_counts, start=1):
                index, certificates = counts.index, plan.certificates(counts, votes)
                rows.append(diagnose_input(
                    trained.members, images[index], int(test.labels[index]), noise, r=r, draws=draws,
                    seed=plan.seed, index=index,
                    predicted={vote: int(made.labels[0]) for vote, made in certificates.items()},
                    radii={vote: float(made.radii[0]) for vote, made in certificates.items()},
                ))  # fmt: skip
                show(done, f"{done / (time.perf_counter() - began):.3g} inputs/s")
        run.note_environment("diagnose", environment.describe(trained.device))
        if Sums.read(run.path).by_name:  # a run that is older than digests stays without them
            run.seal("environment.json")
    return Diagnosis(rows, r, noise.sigma, {"draws": draws, **plan.settings()})
