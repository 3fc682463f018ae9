"""The paper's numerical experiments, drawn: fig:transferability, fig:relation-ensemble-robustness-params.

    python paper_figures.py              # the paper's settings, 4,000 instances
    python paper_figures.py 500          # fewer instances

They are written into the current folder. The paper's ROC curve (fig:roc) needs trained members: `shieldwall
theory diagnose RUN` draws it.

    r = sigma Phi^-1(p_lower),    p_lower: Clopper-Pearson from k right answers in n; r = 0 if p_lower <= 1/2

`transferability` draws the scores of N members, uniform on [a, b]. The wrong classes are as strong as the
portions lambda_1 and lambda_2 allow, so WE is right where X1-hat > 0, and MME where X2-hat > 0.

`relation` draws nothing: k / n is the lower bound of the theorems for uniform scores.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

from shieldwall.binomial import check_draws, clopper_pearson_lower
from shieldwall.errors import UserError
from shieldwall.noise.distributions import Gaussian
from shieldwall.seeds import derive
from shieldwall.theory.statistical import (
    Floats,
    least_deviation,
    mme_bound,
    single_bound_uniform,
    threshold_score,
    uniform_scores,
    we_bound,
)

BLUE, RED, GREEN = "#0072B2", "#D55E00", "#009E73"
BINS = 10
LAMBDA_2 = 0.95


@dataclass(frozen=True)
class TransferabilityPanel:
    """One number of members; the arrays have a number for each instance."""

    members: int
    ratio: Floats
    """lambda_1 / lambda_2."""
    a: Floats
    b: Floats
    """Scores are uniform on [a, b]."""
    r_we: Floats
    r_mme: Floats

    @property
    def difference(self) -> Floats:
        """r_MME - r_WE."""
        return self.r_mme - self.r_we


@dataclass(frozen=True)
class RelationSetting:
    """Scores uniform on [a, b], and the portions lambda of WE, MME and the single model."""

    a: float
    b: float
    lam1: float
    lam2: float
    lam3: float


PAPER_SETTINGS = (
    RelationSetting(a=0.2, b=0.3, lam1=0.29, lam2=0.31, lam3=0.30),
    RelationSetting(a=0.3, b=0.4, lam1=0.48, lam2=0.50, lam3=0.49),
)


@dataclass(frozen=True)
class RelationPanel:
    """One setting; the arrays have a radius for each of N = 1, 2, ..."""

    setting: RelationSetting
    members: NDArray[np.int64]
    r_single: float
    r_we: Floats
    r_we_printed: Floats
    """From the bound of WE as the paper prints it, whose tail is twice what its proof gives."""
    r_mme: Floats

    @property
    def mme_wins_from(self) -> int | None:
        """The N from which the radius of MME stays above that of WE, or none up to the last N."""
        behind = np.flatnonzero(self.r_mme <= self.r_we)
        first = behind[-1] + 1 if len(behind) else 0
        return int(self.members[first]) if first < len(self.members) else None


def transferability(
    *,
    members: Sequence[int] = (3, 10, 20),
    instances: int = 4000,
    n: int = 100_000,
    alpha: float = 0.001,
    sigma: float = 1.0,
    seed: int = 0,
) -> list[TransferabilityPanel]:
    """fig:transferability: r_MME - r_WE against lambda_1 / lambda_2, from n samples for every instance.

    Each instance has lambda_2 = 0.95, lambda_1 uniform on [0.8, 0.95), a on [0.3, 1) and b on [a, 1). An
    instance depends on the seed and its number, not on how many there are. If every answer of both votes is
    right, for example because all of [a, b] is enough for both, the radii are equal.
    """
    check_draws(1, n, alpha)
    if instances < 1 or not members or min(members) < 1:
        raise UserError(
            f"at least one instance and one member are needed; given: {instances} instances, "
            f"members {list(members)}"
        )
    panels = []
    for count in members:
        settings, right = np.empty((3, instances)), np.empty((2, instances), dtype=np.int64)
        for k in range(instances):
            generator = np.random.default_rng(derive(seed, "transferability", count, k))
            lam1 = generator.uniform(0.8, LAMBDA_2)
            a = generator.uniform(0.3, 1.0)
            b = generator.uniform(a, 1.0)
            settings[:, k] = lam1 / LAMBDA_2, a, b
            right[:, k] = _right_answers(generator, count, n, lam1, a, b)
        panels.append(TransferabilityPanel(count, *settings, *certified_radius(right, n, alpha, sigma)))
    return panels


def relation(
    *,
    settings: Sequence[RelationSetting] = PAPER_SETTINGS,
    most_members: int = 100,
    p: float = 0.01,
    n: int = 100_000,
    alpha: float = 0.001,
    sigma: float = 1.0,
) -> list[RelationPanel]:
    """fig:relation-ensemble-robustness-params: the radii that the uniform bounds certify, against N.

    Every model is (eps, lambda, p)-confident with its own lambda, and WE has equal weights.
    """
    check_draws(1, n, alpha)
    if most_members < 1 or not settings:
        raise UserError(
            f"at least one setting and one member are needed; given: {len(settings)} settings, "
            f"up to {most_members} members"
        )
    counts = np.arange(1, most_members + 1)

    def radius(bound: Floats) -> Floats:
        return certified_radius(np.floor(n * np.nan_to_num(np.maximum(bound, 0.0))), n, alpha, sigma)

    def panel(setting: RelationSetting) -> RelationPanel:
        mu, s = uniform_scores(setting.a, setting.b)
        return RelationPanel(
            setting=setting,
            members=counts,
            r_single=float(radius(single_bound_uniform(setting.a, setting.b, setting.lam3, p))),
            r_we=radius(we_bound(mu, s, setting.lam1, p, 1 / counts)),
            r_we_printed=radius(we_bound(mu, s, setting.lam1, p, 2 / counts)),
            r_mme=radius(mme_bound(mu, least_deviation(s, counts), setting.lam2, p)),
        )

    return [panel(setting) for setting in settings]


def certified_radius(right: ArrayLike, n: int, alpha: float, sigma: float) -> Floats:
    """The radius from `right` answers in n (lem:rand-smooth-vanilla-certify), 0 for a bound up to 1/2."""
    return Gaussian(sigma).radius(np.maximum(clopper_pearson_lower(right, n, alpha), 0.5))


def _right_answers(
    generator: np.random.Generator, members: int, n: int, lam1: float, a: float, b: float
) -> tuple[int, int]:
    """How often X1-hat, with equal weights, and X2-hat are positive at n samples of the members' scores.

    X1-hat > 0 if the mean score exceeds t(lambda_1), X2-hat > 0 if the mean of the least and the largest
    score exceeds t(lambda_2).
    """
    t1, t2 = threshold_score(lam1), threshold_score(LAMBDA_2)
    if a > t2:
        # Every score is enough for both votes, as in most instances: there is nothing to draw.
        return n, n
    scores = generator.random((members, n), dtype=np.float32)
    scores *= b - a
    scores += a
    we = np.count_nonzero(scores.mean(0) > t1)
    mme = np.count_nonzero((scores.max(0) + scores.min(0)) / 2 > t2)
    return int(we), int(mme)


def transferability_figure(result: list[TransferabilityPanel]) -> Figure:
    """r_MME - r_WE against lambda_1 / lambda_2, a panel for each number of members.

    Instances with equal radii are not drawn; the legend counts them. The line is the mean of the points, by
    tenths of the axis.
    """
    figure, panels = panels_in_a_row(len(result), aspect=1.0)
    for axes, panel in zip(panels, result, strict=True):
        difference, is_equal = panel.difference, panel.difference == 0
        for chosen, colour, label in (
            (difference > 0, RED, "MME larger"), (difference < 0, BLUE, "WE larger")
        ):  # fmt: skip
            axes.scatter(
                panel.ratio[chosen], difference[chosen], s=7, color=colour, alpha=0.6, linewidths=0,
                label=f"{label}: {chosen.sum()}",
            )  # fmt: skip
        axes.axhline(0.0, color="0.4", linewidth=0.8, label=f"equal: {is_equal.sum()}")
        axes.plot(*binned_mean(panel), color="black", linewidth=1.4, label="mean where not equal")
        axes.set_title(f"N = {panel.members}", fontsize="medium")
        axes.set(xlabel="$\\lambda_1 / \\lambda_2$")
        axes.locator_params(axis="x", nbins=4)
        axes.legend(fontsize="x-small", frameon=False, loc="lower right")
    panels[0].set_ylabel("radius of MME - radius of WE")
    return figure


def binned_mean(panel: TransferabilityPanel) -> tuple[list[float], list[float]]:
    """Centre and mean of the differences that are not 0, for each tenth of the ratios that has any."""
    is_unequal = panel.difference != 0
    ratio, difference = panel.ratio[is_unequal], panel.difference[is_unequal]
    edges = np.linspace(panel.ratio.min(), panel.ratio.max(), BINS + 1)
    bins = np.clip(np.searchsorted(edges, ratio, side="right") - 1, 0, BINS - 1)
    filled = np.unique(bins)
    centres = (edges[:-1] + edges[1:]) / 2
    return centres[filled].tolist(), [float(difference[bins == k].mean()) for k in filled]


def relation_figure(result: list[RelationPanel]) -> Figure:
    """Certified radius against the number of members, a panel for each setting."""
    figure, panels = panels_in_a_row(len(result), aspect=1.3)
    for axes, panel in zip(panels, result, strict=True):
        dashed = {"linewidth": 0.9, "dashes": (4, 1.5)}
        axes.plot(panel.members, panel.r_mme, color=GREEN, linewidth=2.1, label="MME")
        axes.plot(panel.members, panel.r_we, color=BLUE, linewidth=2.1, label="WE")
        axes.plot(panel.members, panel.r_we_printed, color=BLUE, label="WE, bound as printed", **dashed)
        axes.axhline(panel.r_single, color=RED, label="single model", **dashed)
        axes.set_title(setting_title(panel), fontsize="medium")
        axes.set(xlim=(0, panel.members[-1]), ylim=(0, None), xlabel="members N")
    panels[0].set_ylabel("certified radius (L2)")
    panels[-1].legend(fontsize="small", frameon=False, loc="center right")
    return figure


def setting_title(panel: RelationPanel) -> str:
    lam = ", ".join(f"$\\lambda_{k}$ = {getattr(panel.setting, f'lam{k}'):g}" for k in (1, 2, 3))
    return f"[a, b] = [{panel.setting.a:g}, {panel.setting.b:g}],  {lam}"


def panels_in_a_row(count: int, aspect: float) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=(0.6 + aspect * 3.2 * count, 3.4), layout="constrained")
    panels: list[Axes] = list(figure.subplots(1, count, sharey=True, squeeze=False)[0])
    for axes in panels:
        axes.grid(color="0.9", linewidth=0.6)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    return figure, panels


def main() -> None:
    instances = int(sys.argv[1]) if len(sys.argv) > 1 else 4_000
    transfers, relations = transferability(instances=instances), relation()
    transferability_figure(transfers).savefig("transferability.png", dpi=160)
    relation_figure(relations).savefig("relation-ensemble-robustness-params.png", dpi=160)
    for panel in transfers:
        mme, we = (panel.difference > 0).mean(), (panel.difference < 0).mean()
        said = f"MME has the larger radius at {mme:.1%} of the instances, WE at {we:.1%}"
        print(f"{panel.members:2} members: {said}")
    for panel in relations:
        said = f"MME has the larger radius from {panel.mme_wins_from} members on"
        print(f"scores in [{panel.setting.a}, {panel.setting.b}]: {said}")


if __name__ == "__main__":
    main()
