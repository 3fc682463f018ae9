"""Training: objectives, and the one loop that minimises them."""

from shieldwall.training.gaussian import GaussianAugmentation
from shieldwall.training.loop import train
from shieldwall.training.objective import Loss, Objective
from shieldwall.training.registry import build_objective
from shieldwall.training.schedule import Schedule

__all__ = ["GaussianAugmentation", "Loss", "Objective", "Schedule", "build_objective", "train"]
