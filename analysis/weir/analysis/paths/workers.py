# SPDX-License-Identifier: Apache-2.0
"""One function over many inputs, on all processors."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import active_children, get_context
from typing import TypeVar

Input = TypeVar("Input")
Output = TypeVar("Output")


def in_processes(
    work: Callable[[Input], Output], inputs: Sequence[Input], processes: int | None = None
) -> Generator[Output, None, None]:
    """The results as they are ready. Close the iterator to end the rest; raises what `work` raises.

    The inputs, results and the function are sent between processes; one process needs no others.
    """
    count = min(processes or len(os.sched_getaffinity(0)), len(inputs))
    if count < 2:
        yield from map(work, inputs)
        return
    # Forked processes could hold locks of this one's threads.
    others = active_children()
    pool = ProcessPoolExecutor(count, get_context("spawn"), initializer=_leave_interrupts)
    try:
        waiting = [pool.submit(work, one) for one in inputs]
        for done in as_completed(waiting):
            yield done.result()
    except BaseException:
        # Cancelled futures do not end what a worker has begun, nor what it has fetched beforehand.
        for worker in active_children():
            if worker not in others:
                worker.terminate()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _leave_interrupts() -> None:
    """Ctrl-C reaches all processes; the first one ends the others."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
