"""The answers of a smoothed classifier under attack: `attack/VOTE.tsv` of a run folder.

A line for each length of the attack and each input: its number, its true class, the length, and the answer
at the attacked image, -1 where the classifier abstains. Then follow the settings of the attack.
"""

from collections.abc import Mapping
from io import StringIO
from typing import Any, NamedTuple

import numpy as np

from shieldwall.errors import UserError
from shieldwall.results.certificates import Certificates, Floats, Ints
from shieldwall.vocabulary import ABSTAIN

FOLDER = "attack"
_COLUMNS = ("idx", "label", "length", "predict")


class Attack(NamedTuple):
    """L lengths, from 0, at M inputs. An input that is broken at a length stays so at longer ones."""

    lengths: Floats
    """(L,)"""
    indices: Ints
    """(M,)"""
    truth: Ints
    """(M,)"""
    answers: Ints
    """(L, M)"""

    @property
    def is_broken(self) -> "np.ndarray[Any, np.dtype[np.bool_]]":
        """(L, M): whether the answer is another class than the true one; an abstention is not."""
        return np.asarray((self.answers != self.truth) & (self.answers != ABSTAIN))

    @property
    def accuracy(self) -> Floats:
        """(L,): the share of inputs that are not broken, an upper bound on robust accuracy."""
        return np.asarray(1 - self.is_broken.mean(axis=1))

    def certificates_of(self, certificates: Certificates | None) -> Certificates | None:
        """Those of the same inputs, if there are certificates of all of them."""
        if certificates is None or certificates.indices is None:
            return None
        of_inputs = certificates[np.isin(certificates.indices, self.indices)]
        return of_inputs if np.array_equal(of_inputs.indices, self.indices) else None

    def to_tsv(self, settings: Mapping[str, object]) -> str:
        lines = [(*_COLUMNS, *settings)]
        for length, answers in zip(self.lengths, self.answers, strict=True):
            rows = zip(self.indices, self.truth, answers, strict=True)
            lines += [(i, y, f"{length:g}", answer, *settings.values()) for i, y, answer in rows]
        return "".join("\t".join(map(str, line)) + "\n" for line in lines)

    @staticmethod
    def parse(text: str, source: str) -> "Attack":
        try:
            table = np.loadtxt(StringIO(text), delimiter="\t", skiprows=1, usecols=range(4), ndmin=2)
            lengths = np.unique(table[:, 2])
            numbers, truth, length, answers = table.reshape(len(lengths), -1, 4).transpose(2, 0, 1)
        except ValueError as error:
            raise UserError(f"{source} is damaged ({error}); run `shieldwall attack` again") from None
        whole = (part.astype(np.int64) for part in (numbers[0], truth[0], answers))
        return Attack(length[:, 0], *whole)
