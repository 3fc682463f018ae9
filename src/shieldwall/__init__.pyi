"""The public names, each with its home. `__init__.py` loads them from here on first use."""

from shieldwall.data.datasets import dataset_spec as dataset_spec
from shieldwall.data.datasets import load as _load_data
from shieldwall.data.splits import Split as Split
from shieldwall.ensembles.votes import MaxMarginEnsemble as MaxMarginEnsemble
from shieldwall.ensembles.votes import Vote as Vote
from shieldwall.ensembles.votes import WeightedEnsemble as WeightedEnsemble
from shieldwall.ensembles.weights import grid_search_weights as grid_search_weights
from shieldwall.ensembles.weights import sween_weights as sween_weights
from shieldwall.errors import UserError as UserError
from shieldwall.models.classifier import Classifier as Classifier
from shieldwall.models.denoised import Denoised as Denoised
from shieldwall.models.denoised import Denoiser as Denoiser
from shieldwall.models.denoised import OneStepDiffusion as OneStepDiffusion
from shieldwall.models.networks import Normalize as Normalize
from shieldwall.models.registry import build_members as build_members
from shieldwall.noise.distributions import ExactGaussian as ExactGaussian
from shieldwall.noise.distributions import Gaussian as Gaussian
from shieldwall.noise.distributions import Laplace as Laplace
from shieldwall.noise.distributions import Uniform as Uniform
from shieldwall.recipes.recipe import Schedule as Schedule
from shieldwall.report.comparison import Comparison as Comparison
from shieldwall.report.comparison import compare as compare
from shieldwall.results.certificates import Certificates as Certificates
from shieldwall.results.record import read as read
from shieldwall.runs.trained import load as load
from shieldwall.smoothing.certificates import certificates_from_counts as certificates_from_counts
from shieldwall.smoothing.certificates import eas_from_counts as eas_from_counts
from shieldwall.smoothing.certify import Predictions as Predictions
from shieldwall.smoothing.certify import certify as certify
from shieldwall.smoothing.certify import certify_members as certify_members
from shieldwall.smoothing.certify import noisy_confidences as noisy_confidences
from shieldwall.smoothing.certify import predict as predict
from shieldwall.training.diversity import ADP as ADP
from shieldwall.training.diversity import GAL as GAL
from shieldwall.training.drt import DRT as DRT
from shieldwall.training.loop import train as train
from shieldwall.training.member_methods import MACER as MACER
from shieldwall.training.member_methods import Consistency as Consistency
from shieldwall.training.member_methods import Denoising as Denoising
from shieldwall.training.member_methods import GaussianAugmentation as GaussianAugmentation
from shieldwall.training.member_methods import SmoothAdv as SmoothAdv
from shieldwall.training.member_methods import Stability as Stability
from shieldwall.training.objective import Loss as Loss
from shieldwall.training.objective import MemberObjective as MemberObjective
from shieldwall.training.objective import NoisyBatch as NoisyBatch
from shieldwall.training.objective import Objective as Objective
from shieldwall.vocabulary import ABSTAIN as ABSTAIN

__version__: str

# Its own module calls it `load`: the import above is of the public name, too.
load_data = _load_data
