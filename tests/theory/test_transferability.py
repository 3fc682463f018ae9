"""Proxies of fig:roc against loops, ROC curves against scikit-learn's."""

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score, roc_curve

from shieldwall import UserError
from shieldwall.theory.statistical import mme_bound, proxies, roc, we_bound

Floats = NDArray[np.float64]


def some_confidences(seed: int, members: int = 3, draws: int = 50, sure: float = 2.0) -> Floats:
    """Class 1 is the likeliest by `sure`; members share half of what varies."""
    generator = np.random.default_rng(seed)
    logits = generator.normal(size=(members, draws, 4)) + generator.normal(size=(draws, 4))
    logits[..., 1] += sure
    odds = np.exp(logits)
    return np.asarray(odds / odds.sum(-1, keepdims=True))


def by_hand(f: Floats, truth: int, weights: list[float]) -> tuple[float, float, float, float, float]:
    """lambda_1, lambda_2, mu, s and s_f, one number at a time."""
    members, draws, classes = f.shape
    ones, twos, scores, least = [], [], [], []
    for e in range(draws):
        wrong = [k for k in range(classes) if k != truth]
        summed = max(sum(w * f[i, e, k] for i, w in enumerate(weights)) for k in wrong)
        ones.append(summed / sum(w * (1 - f[i, e, truth]) for i, w in enumerate(weights)))
        twos.append(max(max(f[i, e, k] for k in wrong) / (1 - f[i, e, truth]) for i in range(members)))
        scores += [f[i, e, truth] for i in range(members)]
        least.append(min(f[i, e, truth] for i in range(members)))
    return (*(sum(a) / len(a) for a in (ones, twos, scores)), np.std(scores), np.std(least))  # type: ignore[return-value]


@pytest.mark.parametrize("weights", [None, [0.2, 1.0, 2.0]])
def test_proxies_are_the_formulas_written_out(weights: list[float] | None):
    f = some_confidences(0)
    found = proxies(f, 1, weights)
    lam1, lam2, mu, s, s_f = by_hand(f, 1, weights or [1.0, 1.0, 1.0])
    values = (found.lambda_1, found.lambda_2, found.mu, found.s, found.s_f)
    np.testing.assert_allclose(values, (lam1, lam2, mu, s, s_f), rtol=1e-9)
    inside = s / (np.sqrt(3) * s_f) * (mu - 1 / (1 + 1 / lam2)) + 1 - mu
    assert found.threshold == pytest.approx((1 / inside - 1) / lam2, rel=1e-9)
    assert found.x == pytest.approx(lam1 / lam2 - found.threshold, rel=1e-9)


def test_the_sign_of_x_says_which_bound_is_the_greater():
    """Of eq:thm5 with equal weights and eq:thm6, wherever the premises hold."""
    signs = []
    for seed in range(300):
        members = 2 + seed % 40
        f = some_confidences(seed, members=members, sure=1.0 + seed % 5)
        if seed % 2:  # scores that are independent and uniform, as the theory has them
            scores = np.random.default_rng(seed).uniform(0.6, 0.8, f.shape[:2])
            f *= ((1 - scores) / (1 - f[..., 1]))[..., None]
            f[..., 1] = scores
        found = proxies(f, 1)
        if np.isnan(found.x):
            continue
        we = float(we_bound(found.mu, found.s, found.lambda_1, 0.01, 1 / members))
        mme = float(mme_bound(found.mu, found.s_f, found.lambda_2, 0.01))
        assert (found.x > 0) == (mme > we)
        signs.append(found.x > 0)
    assert 20 < sum(signs) < len(signs) - 20


def test_members_that_are_alike_have_a_ratio_of_one():
    f = some_confidences(3)
    found = proxies(np.stack([f[0]] * 3), 1)
    assert found.ratio == pytest.approx(1.0)
    assert found.x < 0  # sqrt(3) s_f / s = sqrt(3): WE's variance would be a third


def test_proxies_survive_members_that_are_all_but_sure():
    """f_1 is 1 to the last bit; the other classes still have their shares, 2 to 1."""
    f = np.tile([2e-18, 1.0, 1e-18], (2, 3, 1))
    found = proxies(f, 1)
    assert found.lambda_1 == pytest.approx(2 / 3)
    assert np.isnan(found.x)  # scores that do not vary


def test_proxies_need_two_samples():
    with pytest.raises(UserError, match=r"n >= 2 samples are needed; given: \(3, 1, 4\)"):
        proxies(some_confidences(0, draws=1), 1)


def test_premises_fail_where_the_true_class_is_unlikely():
    assert np.isnan(proxies(some_confidences(1, sure=-3.0), 1).x)


@pytest.mark.parametrize("values", [1_000, 6])
def test_roc_is_scikit_learns_and_its_area_that_of_all_pairs(values: int):
    """Of 200 values, all different or in 6 ties."""
    generator = np.random.default_rng(values)
    x = generator.integers(values, size=200).astype(float)
    y = generator.random(200) < 0.2 + 0.6 * x / values
    found = roc(x, y)
    false, true, _ = roc_curve(y, x, drop_intermediate=False)
    np.testing.assert_allclose(found.false_positive, false)
    np.testing.assert_allclose(found.true_positive, true)
    pairs = [1.0 if a > b else 0.5 if a == b else 0.0 for a in x[y] for b in x[~y]]
    assert found.area == pytest.approx(np.mean(pairs))
    assert found.area == pytest.approx(roc_auc_score(y, x))
    assert found.area == pytest.approx(np.trapezoid(found.true_positive, found.false_positive))


def test_the_error_of_the_area_is_its_spread():
    """2,000 samples of 40 and 60 normal values one apart; a spread is had to 1.6%, the bound is 5%."""
    generator = np.random.default_rng(0)
    y = np.arange(100) < 40
    found = [roc(generator.normal(size=100) + y, y) for _ in range(2_000)]
    spread = np.std([one.area for one in found])
    assert np.sqrt(np.mean([one.error**2 for one in found])) == pytest.approx(spread, rel=0.05)


def test_roc_needs_both_labels_and_numbers():
    with pytest.raises(UserError, match="both labels; given: 2 ones, 0 zeros"):
        roc([0.1, 0.2], [True, True])
    with pytest.raises(UserError, match="x \\(M,\\) of numbers"):
        roc([0.1, np.nan], [True, False])
