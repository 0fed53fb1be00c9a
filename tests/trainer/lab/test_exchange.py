"""The exchange over real MPI, with torch in the same process."""

import os
import subprocess
import sys
from pathlib import Path

import mpi
import pytest

HERE = Path(__file__).parent


@pytest.mark.parametrize("ranks", [1, 3, 8])
def test_every_reduce_over_mpi_leaves_the_sum_on_every_rank(ranks: int, tmp_path: Path) -> None:
    process = mpi.mpirun(ranks, HERE / "reduce_ranks.py", folder=tmp_path)
    output, _ = process.communicate()
    assert process.returncode == 0, output
    oracle = "NumPy" if "openmpi-4" in os.environ["OPAL_PREFIX"] else "mpi4py"
    for rank in range(ranks):
        assert f"rank {rank} of {ranks}: equal to {oracle}" in output


def test_gloo_leaves_the_sum_on_every_rank(tmp_path: Path) -> None:
    process = mpi.mpirun(3, HERE / "gloo_ranks.py", folder=tmp_path)
    output, _ = process.communicate()
    assert process.returncode == 0, output
    for rank in range(3):
        assert f"rank {rank} of 3: equal" in output


def test_ranks_of_another_mpi_than_mpirun_s_are_told_so(tmp_path: Path) -> None:
    """As where the phone's first mpirun in the path is that of another package."""
    program = tmp_path / "alone.py"
    program.write_text("from trainer.exchange.transport import MpiTransport\nMpiTransport()\n")
    done = subprocess.run(
        [sys.executable, program],
        env={**os.environ, "PYTHONPATH": str(mpi.PROJECT), "PMI_RANK": "1", "PMI_SIZE": "2"},
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0
    assert "mpirun started 2 ranks, but Open MPI v" in done.stderr
    assert "is alone in its world: they are not of one MPI" in done.stderr


def test_a_training_run_succeeds_on_all_ranks(tmp_path: Path) -> None:
    run = mpi.train(mpi.a_plan(16, 16, 16, 16), tmp_path)
    assert len(run.accuracies) == 4
    assert len({final.parameters_sha256 for final in run.finals}) == 1


def test_a_mismatch_of_lengths_names_call_and_peer(tmp_path: Path) -> None:
    program = tmp_path / "mismatch.py"
    program.write_text(
        "import numpy as np\n"
        "from trainer.exchange.engine import Engine, EngineError\n"
        "from trainer.exchange.transport import MpiTransport\n"
        "from trainer.formats import Exchange\n"
        "engine = Engine(lambda: MpiTransport(['phone001', 'phone002']), Exchange())\n"
        "try:\n"
        "    engine.all_reduce(np.ones(200 if engine.rank == 0 else 100, np.float32))\n"
        "except EngineError as error:\n"
        "    print(error, flush=True)\n"
        "    engine.abandon()\n"
    )
    output, _ = mpi.mpirun(2, program, folder=tmp_path).communicate()
    assert "MPI_Irecv with rank 0 (phone001): MPI_ERR_TRUNCATE" in output


def test_a_hundred_messages_may_be_under_way_at_once(tmp_path: Path) -> None:
    program = tmp_path / "hundred.py"
    program.write_text(
        "import time\n"
        "import numpy as np\n"
        "from trainer.exchange.transport import MpiTransport\n"
        "world = MpiTransport()\n"
        "got = [np.zeros(1000, np.int64) for _ in range(100)]\n"
        "sent = [np.full(1000, 100 * world.rank + number) for number in range(100)]\n"
        "pending = [world.receive(each, 1 - world.rank, tag) for tag, each in enumerate(got)]\n"
        "pending += [\n"
        "    world.send(each, 1 - world.rank, tag)\n"
        "    for tag, each in reversed(list(enumerate(sent)))\n"
        "]\n"
        "while not all(world.done(each) for each in pending):\n"
        "    world.progress()\n"
        "    time.sleep(1e-4)\n"
        "print([int(each.max()) for each in got] == [int(each.min()) for each in got]\n"
        "      == [100 * (1 - world.rank) + number for number in range(100)], flush=True)\n"
        "world.close()\n"
    )
    output, _ = mpi.mpirun(2, program, folder=tmp_path).communicate()
    assert output.split() == ["True", "True"], output
