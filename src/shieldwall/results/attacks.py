"""What an attack on a smoothed classifier found: `attack/VOTE.tsv` of a run, with a line for each input.

idx, label    the input's number, its true class
broken        the shortest length of the attack that made the answer another class; inf for none, 0 if the
              answer at the input itself is wrong
lengths, ...  those that were tried, and the other settings
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from shieldwall.errors import UserError
from shieldwall.results.certificates import Floats, Ints


class Attack(NamedTuple):
    """Of M inputs their numbers, true classes, and the shortest of L lengths, from 0, that broke each."""

    indices: Ints
    truth: Ints
    broken: Floats
    lengths: Floats

    @property
    def accuracy(self) -> Floats:
        """(L,): the share of inputs that no attack up to each length broke."""
        return np.asarray((self.broken > self.lengths[:, None]).mean(axis=1))

    def to_tsv(self, settings: Mapping[str, object]) -> str:
        tried = [",".join(f"{length:g}" for length in self.lengths), *map(str, settings.values())]
        rows = zip(self.indices.tolist(), self.truth.tolist(), self.broken.tolist(), strict=True)
        lines = [["idx", "label", "broken", "lengths", *settings]]
        lines += [[f"{index}", f"{label}", f"{broken:g}", *tried] for index, label, broken in rows]
        return "".join("\t".join(line) + "\n" for line in lines)

    @staticmethod
    def parse(text: str, source: str) -> "Attack":
        try:
            rows = [line.split("\t") for line in text.splitlines()[1:]]
            indices, truth, broken = np.array([row[:3] for row in rows], dtype=np.float64).T
            lengths = np.array(rows[0][3].split(","), dtype=np.float64)
        except (ValueError, IndexError) as error:
            raise UserError(f"{source} is damaged ({error}); run `shieldwall attack` again") from None
        return Attack(indices.astype(np.int64), truth.astype(np.int64), broken, lengths)
