"""Counting by several processes, which comes out as one process's: each takes its share of the inputs.

    torchrun --nproc-per-node 4 -m shieldwall certify RUN

An input's counts depend on its own draws alone, so it does not matter which process makes them. The
processes work in rounds and hand in what they have after each; the first one passes it on in order. A
killed process costs the round it was in. One that is asked to stop ends the work of all: each finishes
its inputs in progress, and what is complete in order is passed on.
"""

import time
from collections.abc import Callable, Generator, Iterator, Sequence

from torch import Tensor

from shieldwall.distributed import ProcessGroup
from shieldwall.smoothing.engine import Counted, Engine

SECONDS_PER_ROUND = 5.0
"""Rounds grow until they take this long."""


def counted(
    engine: Engine,
    image: Callable[[int], Tensor],
    indices: Sequence[int],
    done: int,
    world: ProcessGroup,
    should_stop: Callable[[], bool],
) -> Generator[Counted]:
    """The counts of these inputs in order, to the first process; the others work for it, and get none.

    `done` inputs come before these in the whole list. Several processes raise KeyboardInterrupt once one
    of them should stop: they leave together, as they came.
    """
    if world.size == 1:
        yield from engine.counts(_until(should_stop, image, indices), done)
        return
    length = world.size
    while indices:
        began = time.monotonic()
        part, indices = indices[:length], indices[length:]
        start, end = (len(part) * rank // world.size for rank in (world.rank, world.rank + 1))
        mine = list(engine.counts(_until(should_stop, image, part[start:end]), done + start))
        done += len(part)
        handed_in = world.gather((mine, should_stop()))
        if world.is_main:
            found = {one.index: one for theirs, _ in handed_in for one in theirs}
            for index in part:
                if index not in found:
                    break
                yield found[index]
        if any(stopped for _, stopped in handed_in):
            raise KeyboardInterrupt
        if world.broadcast(time.monotonic() - began < SECONDS_PER_ROUND):
            length *= 2


def _until(
    should_stop: Callable[[], bool], image: Callable[[int], Tensor], indices: Sequence[int]
) -> Iterator[tuple[int, Tensor]]:
    for index in indices:
        if should_stop():
            return
        yield index, image(index)
