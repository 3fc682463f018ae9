"""The paper's theory, computable: is an ensemble robust at an input, why, and would WE or MME serve better?

    from shieldwall import theory

    found = theory.members.first_order(members, x, y)
    theory.conditions.eri_weighted(found.margins, found.gradients, None, r=0.25)

| module | what it has |
| --- | --- |
| conditions | sufficient and necessary conditions of WE, MME and single members, their radii, ERI |
| smoothness | how smooth Gaussian noise makes a confidence, and how smooth one is |
| comparison | an ensemble of two against each alone; optimal weights; more members |
| statistical, uniform | how often a vote is right under noise, bounded; WE against MME |
| simulate, figures | the paper's numerical experiments, and their figures |
| members | margins and gradients of real members, as they are and soft-smoothed, with error bars |
| standing | each vote at an input: its ERI, the radii that follow, the verdict |
| transfer | attacks on one member, tried on others |
| proxies | lambda_1, lambda_2 and X of real members; ROC curves (fig:roc) |

Modules load on first use. `docs/equations.md` maps every label of the paper to its function.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

    from shieldwall.theory import (
        comparison,
        conditions,
        figures,
        members,
        proxies,
        simulate,
        smoothness,
        standing,
        statistical,
        transfer,
        uniform,
    )

__all__ = [
    "comparison",
    "conditions",
    "figures",
    "members",
    "proxies",
    "simulate",
    "smoothness",
    "standing",
    "statistical",
    "transfer",
    "uniform",
]


def __getattr__(name: str) -> "ModuleType":
    if name not in __all__:
        raise AttributeError(f"module 'shieldwall.theory' has no attribute {name!r}")
    return importlib.import_module(f"shieldwall.theory.{name}")
