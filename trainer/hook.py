"""The exchange as a communication hook of PyTorch's DistributedDataParallel."""

# No postponed annotations: PyTorch compares those of the hook with the types themselves.

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch.distributed import GradBucket
from torch.futures import Future

from trainer.exchange.engine import Bucket, Engine
from trainer.formats import IterationEvent, Plan, PlanError, Progress, StartEvent
from trainer.report import Reporter, reporting

Hook = Callable[[object, GradBucket], Future[torch.Tensor]]


@contextmanager
def ddp_hook(plan: Plan | str | os.PathLike[str] = "plan.json") -> Iterator[Hook]:
    """A hook for `model.register_comm_hook(None, hook)` that exchanges gradients as `plan` says.

    Gradients are averaged over the ranks, each by its `samples_per_rank`. Progress and the last
    word of a run that `fleetctl launch` started are written into the run folder, where the rank
    stands. Raises PlanError for a plan that does not fit the world.
    """
    chosen = plan if isinstance(plan, Plan) else Plan.read(plan)
    chosen.check()
    if chosen.exchange.reduce == "gloo":
        raise PlanError("ddp_hook and exchange.reduce gloo: that is DDP without a hook")
    if not chosen.exchange.enabled:
        raise PlanError("ddp_hook and exchange.enabled=false: a hook is there to exchange")
    with reporting(Path.cwd(), chosen) as reporter:
        engine = Engine.of(chosen)
        try:
            if engine.size != len(chosen.phones):
                raise PlanError(
                    f"phones ({len(chosen.phones)} names) and the MPI world ({engine.size} ranks) "
                    "must be equally large: start one rank a phone"
                )
            yield _Exchange(chosen, engine, reporter).hook
        except BaseException:
            engine.abandon()
            raise
        engine.close()
        reporter.done(None)


class _Exchange:
    """What the hook remembers from bucket to bucket."""

    def __init__(self, plan: Plan, engine: Engine, reporter: Reporter) -> None:
        self._plan, self._engine, self._reporter = plan, engine, reporter
        self._weight = plan.samples_per_rank[engine.rank] / plan.global_batch
        self._exchange_seconds = 0.0
        self._last_end = self._last_post = time.time()
        reporter.event(StartEvent(self._last_end))

    def hook(self, _state: object, bucket: GradBucket) -> Future[torch.Tensor]:
        """Called by DDP when the gradients of a bucket are there, in one order on all ranks."""
        buffer = bucket.buffer().mul_(self._weight)
        is_last = bucket.is_last()
        answer: Future[torch.Tensor] = Future()

        def end(sent: Bucket) -> None:
            self._exchange_seconds += sent.seconds
            if sent.error is not None:
                answer.set_exception(RuntimeError(f"gradient exchange: {sent.error}"))
                return
            if is_last:
                self._report()
            answer.set_result(buffer)

        self._last_post = time.time()
        self._engine.post(buffer.numpy(), on_end=end)
        return answer

    def _report(self) -> None:
        """An iteration's gradients are exchanged. The loss is the program's own affair."""
        now, reporter, images = time.time(), self._reporter, self._plan.global_batch
        reporter.iteration += 1
        whole, wait = now - self._last_end, now - self._last_post
        reporter.event(
            IterationEvent(
                time=now,
                iteration=reporter.iteration,
                epoch=0,
                loss=None,
                images=images,
                images_per_second=images / max(whole, 1e-9),
                compute_seconds=whole - wait,
                exchange_seconds=self._exchange_seconds,
                wait_seconds=wait,
            )
        )
        reporter.progress(
            Progress(
                run=self._plan.run,
                rank=reporter.rank,
                phone=reporter.phone,
                time=now,
                iteration=reporter.iteration,
                iterations=0,
                epoch=0,
                loss=None,
                accuracy=None,
                compute_seconds=whole - wait,
                exchange_seconds=self._exchange_seconds,
                wait_seconds=wait,
                images=images * reporter.iteration,
            )
        )
        self._last_end, self._exchange_seconds = now, 0.0
