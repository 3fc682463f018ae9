"""Training: objectives, and the one loop that minimises them."""

from shieldwall.training.adp import ADP
from shieldwall.training.consistency import Consistency
from shieldwall.training.drt import DRT
from shieldwall.training.gal import GAL
from shieldwall.training.gaussian import GaussianAugmentation
from shieldwall.training.loop import train
from shieldwall.training.macer import MACER
from shieldwall.training.objective import Loss, MemberObjective, Objective
from shieldwall.training.registry import OBJECTIVES, build_objective
from shieldwall.training.schedule import Schedule
from shieldwall.training.smoothadv import SmoothAdv
from shieldwall.training.stability import Stability

__all__ = [
    "ADP",
    "DRT",
    "GAL",
    "MACER",
    "OBJECTIVES",
    "Consistency",
    "GaussianAugmentation",
    "Loss",
    "MemberObjective",
    "Objective",
    "Schedule",
    "SmoothAdv",
    "Stability",
    "build_objective",
    "train",
]
