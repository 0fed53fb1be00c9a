"""Depthwise layers by our kernels: torch's results and gradients, and only where it pays."""

import copy
import itertools

import mpi
import pytest
import torch
from torch import nn

from trainer import depthwise, kernels
from trainer.depthwise import DepthwiseConv2d, convolve, speed_up
from trainer.formats import StartEvent

LIBRARY = mpi.SHARED / "release/lib" / kernels.LIBRARY
IMAGES = torch.rand(2, 6, 9, 12)


@pytest.fixture
def library() -> kernels.Kernels:
    return kernels.load(LIBRARY)


@pytest.fixture
def without_onednn():
    with torch.backends.mkldnn.flags(enabled=False):
        yield


@pytest.fixture(params=[1, 2])
def threads(request):
    yield from having(request.param)


@pytest.fixture
def one_thread():
    """Two that wait for each other are slow on a machine that has other work."""
    yield from having(1)


def having(threads: int):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    yield
    torch.set_num_threads(before)


def model() -> nn.Module:
    """A block as in MobileNet-v2, and layers that only look like depthwise ones."""
    return nn.Sequential(
        nn.Conv2d(6, 24, 1, bias=False),
        nn.BatchNorm2d(24),
        nn.Conv2d(24, 24, 3, 2, 1, groups=24, bias=False),
        nn.Conv2d(24, 24, 5, 1, 2, groups=24),
        nn.Dropout(0.5),
        nn.Conv2d(24, 48, 3, padding=1, groups=24),  # two filters a channel
        nn.Conv2d(48, 48, 3, padding=2, dilation=2, groups=48),
        nn.Conv2d(48, 48, 3, padding=1, groups=48, padding_mode="reflect"),
        nn.utils.parametrizations.weight_norm(nn.Conv2d(48, 48, 3, groups=48)),
        nn.Flatten(),
        nn.LazyLinear(3),
    )


@pytest.mark.parametrize(
    ("kernel", "stride", "size"),
    list(itertools.product([3, 5], [1, 2], [(1, 1), (7, 7), (15, 32), (33, 5)])),
)
def test_results_and_gradients_are_torch_s(library, threads, kernel, stride, size) -> None:
    torch.manual_seed(0)
    padding = kernel // 2
    given = [torch.randn(3, 8, *size), torch.randn(8, 1, kernel, kernel), torch.randn(8)]
    ours = [each.clone().requires_grad_() for each in given]
    right = [each.double().requires_grad_() for each in given]
    result = convolve(library, *ours, stride, (padding, padding))
    expected = nn.functional.conv2d(*right, stride, padding, groups=8)
    slope = torch.randn_like(result)
    result.backward(slope)
    expected.backward(slope.double())
    torch.testing.assert_close(result.double(), expected, rtol=1e-5, atol=1e-5)
    for mine, true in zip(ours, right, strict=True):
        scale = true.grad.abs().max()
        torch.testing.assert_close(mine.grad.double() / scale, true.grad / scale, rtol=0, atol=2e-6)


@pytest.mark.filterwarnings("ignore:Input #")
def test_gradients_are_those_of_the_function(library, one_thread) -> None:
    """Linear in each argument, so that large differences are exact, which float32 needs."""
    given = [torch.randn(2, 3, 6, 7), torch.randn(3, 1, 3, 3), torch.randn(3)]
    for each in given:
        each.requires_grad_()
    torch.autograd.gradcheck(
        lambda *tensors: convolve(library, *tensors, 2, (1, 1)), given, eps=0.5, atol=1e-3
    )


def test_only_gradients_that_are_asked_for_are_made(library) -> None:
    weight = torch.randn(6, 1, 3, 3, requires_grad=True)
    convolve(library, IMAGES.transpose(2, 3), weight, None, 1, (1, 1)).sum().backward()
    right = weight.detach().clone().requires_grad_()
    nn.functional.conv2d(IMAGES.transpose(2, 3), right, padding=1, groups=6).sum().backward()
    torch.testing.assert_close(weight.grad, right.grad, rtol=1e-4, atol=1e-4)


def test_layers_that_are_faster_by_us_are_ours_and_all_else_stays(
    without_onednn, one_thread
) -> None:
    changed, before = model(), torch.random.get_rng_state()
    changed(IMAGES)  # the last layer learns its size
    torch.random.set_rng_state(before)
    state = copy.deepcopy(changed.state_dict())
    parameters = dict(changed.named_parameters())
    original = copy.deepcopy(changed)

    said = speed_up(changed, IMAGES[:1], 2, LIBRARY)

    # On a busy machine a measurement may be wrong, but torch takes many times as long.
    assert "of 2 depthwise layers by our kernels" in said
    ours = [i for i, each in enumerate(changed) if isinstance(each, DepthwiseConv2d)]
    assert ours
    assert set(ours) <= {2, 3}
    assert torch.equal(torch.random.get_rng_state(), before)
    assert changed.training
    assert all(changed.get_parameter(name) is each for name, each in parameters.items())
    assert state.keys() == changed.state_dict().keys()
    for name, value in changed.state_dict().items():
        assert torch.equal(value, state[name]), name
    for mode in (True, False):
        outputs = []
        for each in (original, changed, copy.deepcopy(changed)):
            torch.manual_seed(1)
            outputs.append(each.train(mode)(IMAGES))
        torch.testing.assert_close(outputs[1], outputs[0], rtol=1e-4, atol=1e-5)
        assert torch.equal(outputs[2], outputs[1])


def test_what_the_kernels_do_not_know_torch_does(without_onednn, one_thread) -> None:
    layer = nn.Sequential(nn.Conv2d(6, 6, 3, padding=1, groups=6))
    speed_up(layer, IMAGES, 2, LIBRARY)
    assert isinstance(layer[0], DepthwiseConv2d)
    assert layer(IMAGES[0]).shape == (6, 9, 12)
    assert layer(IMAGES[:0]).shape == (0, 6, 9, 12)
    assert layer.double()(IMAGES.double()).dtype == torch.float64


def test_where_torch_is_faster_it_stays(monkeypatch) -> None:
    monkeypatch.setattr(depthwise, "_compare", lambda *_: (1.0, 1.1))
    layer = nn.Sequential(nn.Conv2d(6, 6, 3, groups=6))
    assert speed_up(layer, IMAGES, 2, LIBRARY) == (
        "1 depthwise layers by torch, which is faster here"
    )
    assert type(layer[0]) is nn.Conv2d


def test_without_the_library_torch_goes_on_and_it_is_said(tmp_path) -> None:
    layer = nn.Sequential(nn.Conv2d(6, 6, 3, groups=6))
    said = speed_up(layer, IMAGES, 2, tmp_path / "none.so")
    assert said.startswith("1 depthwise layers by torch: ")
    assert "none.so is missing" in said
    assert type(layer[0]) is nn.Conv2d
    assert speed_up(nn.Linear(2, 2), IMAGES, 2, tmp_path / "none.so") == ""


def test_a_model_that_does_not_take_the_images_is_left_to_fail_by_itself() -> None:
    layer = nn.Sequential(nn.Conv2d(5, 5, 3, groups=5))
    assert "the model does not take such images" in speed_up(layer, IMAGES, 2, LIBRARY)
    assert not layer[0]._forward_pre_hooks


PROGRAM = f"""
import sys
sys.path.insert(0, "{mpi.SHARED}/release/python")  # beside its library, as on a phone
from torch import nn
from trainer import fit, load_data
model = nn.Sequential(
    nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1, groups=16),
    nn.Flatten(), nn.Linear(16 * 64, 10),
)
fit(model, load_data("digits"))
"""


@pytest.mark.soak
@pytest.mark.parametrize(("setting", "said"), [("auto", True), ("off", False)])
def test_a_run_says_what_its_first_rank_uses(tmp_path, setting, said) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "run").mkdir()
    plan = mpi.a_plan(60, kernels=setting)
    run = mpi.train(plan, tmp_path / "run", tmp_path / "program.py")
    (start,) = run.events("start")
    assert isinstance(start, StartEvent)
    assert ("depthwise layers by" in (start.note or "")) is said
    assert "missing" not in (start.note or "")
    assert len(run.accuracies) == 1
