"""Threads by measurement: the fastest number, kept in the phone's profile."""

import os
import threading

import pytest
import torch

from trainer import tune
from trainer.formats import ModelSpec, Profile, Threads, Workload
from trainer.threads import blas_threads, compute_with

WORK = Workload('["digits-cnn", {}]', (1, 8, 8), 8, "2.6")


@pytest.mark.parametrize(
    ("torchs", "blas", "expected"),
    [
        ({1: 4.0, 2: 2.0, 4: 1.0, 8: 1.2}, {2: 3.0, 4: 2.0, 8: 9.0}, (4, 1)),
        ({1: 4.0, 2: 2.0, 4: 1.0, 8: 1.2}, {2: 1.5, 4: 0.9, 8: 0.8}, (1, 8)),
        ({1: 1.0, 2: 1.0, 4: 0.98, 8: 0.98}, {2: 1.0, 4: 1.0, 8: 1.0}, (1, 1)),
        # What has become hopeless is not tried with more: the keys that would be missed.
        ({1: 4.0, 2: 5.5}, {2: 3.0, 4: 2.0, 8: 1.9}, (1, 8)),
        ({1: 4.0, 2: 3.0, 4: 2.0, 8: 3.5}, {2: 9.0}, (4, 1)),
    ],
)
def test_more_threads_may_be_slower(
    torchs: dict[int, float], blas: dict[int, float], expected: tuple[int, int]
) -> None:
    def seconds_of(pools: tuple[int, int]) -> float:
        return torchs[pools[0]] if pools[1] == 1 else blas[pools[1]]

    assert tune.best(seconds_of, (1, 2, 4, 8))[0] == expected


def test_openblas_gets_the_threads_that_torch_leaves_it() -> None:
    before = (torch.get_num_threads(), blas_threads())
    assert before[1] is not None  # as on a phone, torch computes with it here
    try:
        for pools in ((1, 2), (2, 1), (1, 1)):
            compute_with(*pools)
            assert (torch.get_num_threads(), blas_threads()) == pools
    finally:
        compute_with(before[0], before[1])


@pytest.mark.parametrize(
    ("cores", "numbers"), [(1, [1]), (2, [1, 2]), (6, [1, 2, 4, 6]), (8, [1, 2, 4, 8])]
)
def test_powers_of_two_and_all_cores_are_tried(cores: int, numbers: list[int]) -> None:
    assert tune.candidates(cores) == numbers


def test_the_fastest_cores_come_first(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3})
    for core, frequency in ((0, 1_900_000), (2, 2_700_000), (3, 2_700_000)):
        folder = tmp_path / f"cpu{core}/cpufreq"
        folder.mkdir(parents=True)
        (folder / "cpuinfo_max_freq").write_text(f"{frequency}\n")
    assert tune.fastest_cores(tmp_path) == [2, 3, 0, 1]


def test_what_was_measured_once_is_known_the_next_time(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(tune, "_SECONDS", 0.0)
    allowed, pools = os.sched_getaffinity(0), (torch.get_num_threads(), 1)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    path = tmp_path / "phonerack/profile.json"
    loss = torch.nn.functional.cross_entropy
    try:
        chosen = tune.choose(model, loss, WORK, path)
        assert os.sched_getaffinity(0) == allowed
    finally:
        tune.use(pools, sorted(allowed))
    assert 1 <= chosen.threads * chosen.blas_threads <= len(allowed)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
    monkeypatch.setattr(tune, "measure", None)
    assert tune.choose(model, loss, WORK, path) == chosen
    path.write_text("{")
    assert tune.read_profile(path) == Profile()


def test_two_programs_with_models_of_their_own_are_two_workloads(monkeypatch) -> None:
    def workload(*layers: torch.nn.Module, name: str = "script") -> Workload:
        return tune.workload_of(ModelSpec(name), torch.nn.Sequential(*layers), (1, 8, 8), 8)

    own = workload(torch.nn.Linear(64, 10))
    assert workload(torch.nn.Linear(64, 10)) == own
    assert workload(torch.nn.Linear(64, 20)) != own
    assert workload(torch.nn.Linear(64, 10), torch.nn.ReLU()) != own
    assert workload(torch.nn.Linear(64, 10), name="digits-cnn") != own
    allowed = os.sched_getaffinity(0)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {*allowed, 99})
    assert workload(torch.nn.Linear(64, 10)) != own, "it may use another core now"


def test_the_communication_thread_is_left_free() -> None:
    allowed = sorted(os.sched_getaffinity(0))
    end, begun = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        end.wait()

    thread = threading.Thread(target=work)
    thread.start()
    begun.wait()
    pools = (torch.get_num_threads(), 1)
    try:
        tune.use(pools, allowed[:1], thread.native_id)
        assert os.sched_getaffinity(0) == set(allowed[:1])
        assert os.sched_getaffinity(thread.native_id or 0) == set(allowed)
    finally:
        tune.use(pools, allowed)
        end.set()
        thread.join()


def test_a_profile_keeps_one_entry_a_workload_and_not_too_many() -> None:
    profile = Profile()
    for number in range(100):
        work = Workload("m", (1, 8, 8), number, "2.6")
        profile = profile.with_threads(Threads(work, 2, (), 1.0, 0.0))
    assert profile.known(Workload("m", (1, 8, 8), 99, "2.6")) is not None
    assert profile.known(Workload("m", (1, 8, 8), 1, "2.6")) is None
    again = profile.with_threads(Threads(work, 4, (0, 1, 2, 3), 0.5, 1.0))
    assert len(again.threads) == len(profile.threads)
    assert Profile.from_json(again.to_json()) == again
