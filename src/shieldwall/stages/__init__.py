"""The stages of an experiment, each from a run folder to the same run folder.

Every stage can be killed at any moment and called again: training and certification go on from what the
folder holds, the others start over.
"""

from shieldwall.stages.certify import certify_run
from shieldwall.stages.diagnose import diagnose_run
from shieldwall.stages.predict import Answer, predict_run
from shieldwall.stages.train import train_run
from shieldwall.stages.tune_weights import tune_weights_run

__all__ = [
    "Answer",
    "certify_run",
    "diagnose_run",
    "predict_run",
    "train_run",
    "tune_weights_run",
]
