"""The sampler: noise, members, votes and counts on the device, in batches that cross inputs.

    inputs in line -> draws of several fill one batch -> members -> votes -> counts[input, vote, class]

Every batch has the same shape, so that a draw is classified by the same kernels whatever shares its batch.
With T draws per input, draw j of the k-th input sits in row (k T + j) mod B of its batch, wherever the work
began: some kernels round by row. Looks, at which an input may stop, are fixed numbers of draws, so no
decision depends on the batches. On an accelerator the counts of one batch are read while the next one runs.
"""

import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import Tensor

from shieldwall.devices import check_memory, is_out_of_memory
from shieldwall.ensembles.votes import Vote
from shieldwall.errors import UserError, check, check_int
from shieldwall.models.members import model_errors
from shieldwall.noise.distributions import Noise
from shieldwall.results.certificates import Ints
from shieldwall.smoothing.buffer import CountSnapshot, DrawBuffer, NoiseStream, PendingInput
from shieldwall.smoothing.certificates import Counts
from shieldwall.smoothing.inference import Classifier, Labeler, default_batch_size, largest_fitting_batch
from shieldwall.smoothing.probe import check_is_function, difference, noisy_images, tolerance
from shieldwall.smoothing.stopping import Stopping

MOST_WAITING = 1_024  # inputs that may be complete before an earlier one is: they are held in memory
FIRST_VIEW = 16  # draws of the bound behind the first counts of a stream


class Sampler:
    """Counts how often each class wins under noise, for inputs of one shape, by vote or by one classifier."""

    def __init__(
        self, classifiers: Sequence[Classifier], votes: Sequence[Vote] | None, noise: Noise, n0: int,
        stopping: Stopping, *, seed: int, shape: Sequence[int], device: torch.device,
        batch_size: int | None = None, precision: str = "float32", compile: bool = False,
        prepare: bool = False, example: Tensor | None = None, truth: Tensor | None = None,
    ) -> None:  # fmt: skip
        """With an example of the inputs the classifiers are tried at it first (`smoothing.probe`).

        `prepare` takes their fastest form (`smoothing.prepared`) if that agrees with them there. `truth` has
        the true class of every index: where all votes choose another one, nothing is drawn to bound it.
        """
        if batch_size is not None:
            check_int("batch_size", batch_size)
            check(batch_size >= 1, "batch_size must be at least 1", batch_size)
            check_memory(f"a batch of {batch_size:,} inputs", batch_size, *shape)
        self.noise, self.n0, self.stopping, self.seed = noise, n0, stopping, seed
        self.shape, self.device, self.truth = tuple(shape), device, truth
        # The numbers of draws for the bound at which it is asked whether an input needs more.
        self.looks = ([] if truth is None else [0]) + stopping.looks()
        self.labeler = Labeler(classifiers, votes, device, precision, compile, prepare)
        self.is_compiled, self.is_prepared = compile, prepare
        # The size of the first batch; it halves when memory runs out.
        self.batch_size = self._default_batch_size() if batch_size is None else batch_size
        noisy = None if example is None else noisy_images(noise, example, seed, device)
        if noisy is not None:
            check_is_function(self.labeler, noisy, self.batch_size)
        if prepare:  # the fastest form must be the same function
            apart = None if noisy is None else difference(self.labeler, self.labeler.modules, noisy)
            self.is_prepared = apart is not None and apart <= tolerance(self.labeler.dtype)
            if not self.is_prepared:
                self.labeler.use(self.labeler.plain)
        if compile:
            self._warm_up(noisy)

    def counts(self, inputs: Iterable[tuple[int, Tensor]], first_place: int = 0) -> Iterator[Counts]:
        """The counts of one (index, image) after the other; the first has this place in a longer list."""
        shortest = self.n0 + self.looks[0]
        batches_ahead = 3 if self.device.type == "cuda" else 2
        slots = 2 + batches_ahead * math.ceil(self.batch_size / shortest)  # fills batches, come what may
        return _Scheduler(self, self._buffer(slots), iter(inputs), first_place).run()

    def stream(self, image: Tensor, index: int = 0) -> Iterator[Counts]:
        """One input's counts after each batch, which at most doubles the draws that bound, from 16 on."""
        end = self.n0 + self.stopping.looks()[-1]
        buffer, pending = self._buffer(slots=1), self.begin(0, index, image, 0)
        while pending.drawn < end:
            fresh = max(0, pending.drawn - self.n0)
            goal = min(end, self.n0 + max(FIRST_VIEW, 2 * fresh))
            buffer.add(pending, min(goal - pending.drawn, buffer.size))
            with model_errors(self.shape):
                buffer.count()
            yield Counts(index, *buffer.snapshot([pending]).read()[0])

    def begin(self, order: int, index: int, image: Tensor, slot: int) -> PendingInput:
        """The input with none of its draws, its image on the way to the device."""
        if self.device.type == "cuda" and image.device.type == "cpu":
            image = image.pin_memory()
        stream = NoiseStream(self.noise, self.shape, self.device, self.seed, index)
        return PendingInput(order, index, image.to(self.device, non_blocking=True), slot, stream)

    def _buffer(self, slots: int) -> DrawBuffer:
        return DrawBuffer(self.labeler, self.noise, self.n0, self.shape, self.batch_size, slots)

    def _default_batch_size(self) -> int:
        size = default_batch_size(self.device, self.shape, self.n0 + self.stopping.looks()[-1])
        if self.device.type != "cuda":
            return size
        with model_errors(self.shape):
            return largest_fitting_batch(self.labeler, size, self.shape)

    def _warm_up(self, noisy: Tensor | None) -> None:
        """Compile before there is anything to lose, or say why that cannot be done."""
        try:
            self._buffer(slots=1).count()
        except RuntimeError as error:
            if is_out_of_memory(error):  # the scheduler knows what to do then
                return
            reason = str(error).partition("\n")[0]
            raise UserError(f"torch.compile does not work here: {reason}; remove compile") from error
        if noisy is None:
            return
        rows = noisy[torch.arange(self.batch_size, device=noisy.device) % len(noisy)]
        apart = difference(self.labeler, self.labeler.compiled, rows)
        if apart is not None and apart > tolerance(self.labeler.dtype):
            how = f"scores differ by {apart:.2g} of the largest score, more than by rounding"
            raise UserError(f"torch.compile changes the classifier: {how}; remove compile")


class _Scheduler:
    """Which input's draws come next: those of the earliest input that has draws to make."""

    def __init__(
        self, sampler: Sampler, buffer: DrawBuffer, source: Iterator[tuple[int, Tensor]], first_place: int
    ) -> None:
        self._sampler, self._looks, self._buffer = sampler, sampler.looks, buffer
        self._source, self._source_has_ended, self._first_place = source, False, first_place
        self._free = deque(range(buffer.slots))
        self._under_way: dict[int, PendingInput] = {}  # by place in the order given
        self._complete: dict[int, Counts] = {}
        self._taken = self._given = 0
        self._align_to_row(0)

    def run(self) -> Iterator[Counts]:
        snapshots: deque[CountSnapshot] = deque()
        delay = 1 if self._sampler.device.type == "cuda" else 0
        while self._under_way or not self._source_has_ended:
            try:
                due = self._fill(snapshots)
                if self._buffer.rows:
                    with model_errors(self._sampler.shape):
                        self._buffer.count()
                if due:
                    snapshots.append(self._buffer.snapshot(due))
                while len(snapshots) > delay:
                    self._look(snapshots.popleft())
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                snapshots.clear()
                self._retry_with_half_batch(error)
            while self._given in self._complete:
                yield self._complete.pop(self._given)
                self._given += 1

    def _fill(self, snapshots: deque[CountSnapshot]) -> list[PendingInput]:
        """Fill the batch; return the inputs to be looked at after it."""
        due = []
        while room := self._buffer.size - self._buffer.rows:
            waiting = (pending for pending in self._under_way.values() if not pending.is_due)
            pending = next(waiting, None) or self._take()  # the earliest that has draws to make
            if pending is not None:
                wanted = self._sampler.n0 + self._looks[pending.looks_done]
                self._buffer.add(pending, min(wanted - pending.drawn, room))
                pending.is_due = pending.drawn == wanted
                if pending.is_due:
                    due.append(pending)
            elif snapshots:
                self._look(snapshots.popleft())  # which may want more draws
            else:
                break
        return due

    def _take(self) -> PendingInput | None:
        if self._source_has_ended or not self._free or self._taken - self._given >= MOST_WAITING:
            return None
        index, image = next(self._source, (0, None))
        if image is None:
            self._source_has_ended = True
            return None
        pending = self._sampler.begin(self._taken, index, image, self._free.popleft())
        self._under_way[pending.order] = pending
        self._taken += 1
        return pending

    def _look(self, snapshot: CountSnapshot) -> None:
        """Complete the inputs that are decided; the others continue."""
        counts = snapshot.read()
        decided = self._are_decided(snapshot.inputs, counts)
        for pending, of_input, is_decided in zip(snapshot.inputs, counts, decided, strict=True):
            pending.is_due = False
            pending.looks_done += 1
            if is_decided:
                self._complete[pending.order] = Counts(pending.index, *of_input.copy())
                self._buffer.clear(pending.slot)
                self._free.append(pending.slot)
                del self._under_way[pending.order]

    def _are_decided(self, inputs: list[PendingInput], counts: Ints) -> list[bool]:
        at_end = [pending.looks_done + 1 == len(self._looks) for pending in inputs]
        if all(at_end):
            return at_end
        chosen, estimation, truth = counts[:, 0].argmax(-1), counts[:, 1], self._sampler.truth
        by_vote = self._sampler.stopping.is_decided(chosen, estimation)
        if truth is not None:
            at_n0 = ~estimation.any((1, 2))
            wrong = chosen != truth[[pending.index for pending in inputs]].numpy()[:, None]
            by_vote[at_n0] = wrong[at_n0].all(-1, keepdims=True)
        return [end or bool(votes.all()) for end, votes in zip(at_end, by_vote, strict=True)]

    def _retry_with_half_batch(self, error: Exception) -> None:
        """Halve the batch and begin the inputs under way again: their draws come out the same."""
        if self._buffer.size == 1:
            raise UserError("one noisy input at a time does not fit into memory") from error
        self._buffer.allocate(self._buffer.size // 2)
        if self._sampler.device.type == "cuda":
            torch.cuda.empty_cache()
        self._free = deque(range(self._buffer.slots))
        for order, pending in self._under_way.items():
            slot = self._free.popleft()
            self._under_way[order] = self._sampler.begin(order, pending.index, pending.image, slot)
        self._align_to_row(min(self._under_way, default=self._taken))

    def _align_to_row(self, order: int) -> None:
        """Leave rows empty, so that this input's draws come to sit in the rows of its place."""
        if len(self._looks) == 1:
            draws = self._sampler.n0 + self._looks[0]
            self._buffer.rows = (self._first_place + order) * draws % self._buffer.size
