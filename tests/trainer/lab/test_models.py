"""Models by name: what trainer.formats says of them, without torch, is so."""

import pytest
import torch
import torchvision  # noqa: F401  it does not import where tensors are without numbers

from trainer import models
from trainer.batchnorm import has_batch_norm
from trainer.formats import KNOWN, ModelSpec, PlanError

# Millions of parameters and tensors, as the paper's models are counted.
PAPER = {
    "squeezenet": (1.24, 52),
    "mobilenet-v1": (4.23, 83),
    "mobilenet-v2": (3.50, 158),
    "mnasnet": (4.38, 158),
    "googlenet": (7.00, 116),
    "inception-v3": (23.8, 284),
    "resnet-50": (25.6, 161),
    "resnet-152": (60.2, 467),
    "alexnet": (61.0, 16),
}


def on_meta(name: str, **args: object) -> torch.nn.Module:
    """Shapes without numbers: a model of 60 million parameters in no time."""
    with torch.device("meta"):
        return models.build(ModelSpec(name, dict(args)))


def answer(model: torch.nn.Module, pixels: int, channels: int = 3) -> torch.Tensor:
    output = model(torch.zeros(2, channels, pixels, pixels, device="meta"))
    return output if isinstance(output, torch.Tensor) else output.logits


@pytest.mark.parametrize("name", KNOWN)
def test_what_is_known_of_a_model_without_torch_is_so(name: str) -> None:
    known, model = KNOWN[name], on_meta(name)
    parameters = list(model.parameters())
    assert sum(p.numel() for p in parameters) == known.parameters
    assert len(parameters) == known.tensors
    assert has_batch_norm(model) is known.batch_norm
    if name != "digits-cnn":  # whose image size is an argument
        assert answer(model, known.pixels).shape == (2, 1000)
        if known.pixels > 1:
            with pytest.raises(RuntimeError):
                answer(model, known.pixels - 1)


@pytest.mark.parametrize("name", PAPER)
def test_the_paper_s_models_are_of_the_paper_s_size(name: str) -> None:
    millions, tensors = PAPER[name]
    assert KNOWN[name].parameters / 1e6 == pytest.approx(millions, rel=5e-3)
    assert KNOWN[name].tensors == tensors


@pytest.mark.parametrize(
    ("name", "millions", "tensors"), [("googlenet", 13.4, 128), ("inception-v3", 27.2, 292)]
)
def test_heads_are_there_when_asked_for(name: str, millions: float, tensors: int) -> None:
    model = on_meta(name, aux_logits=True)
    parameters = list(model.parameters())
    assert sum(p.numel() for p in parameters) / 1e6 == pytest.approx(millions, rel=5e-3)
    assert len(parameters) == tensors
    pixels = (KNOWN[name].large_pixels or ("", KNOWN[name].pixels))[1]
    output = model(torch.zeros(2, 3, pixels, pixels, device="meta"))
    assert len([each for each in output if each is not None]) == {"googlenet": 3}.get(name, 2)
    if KNOWN[name].large_pixels:
        with pytest.raises(RuntimeError):
            model(torch.zeros(2, 3, pixels - 1, pixels - 1, device="meta"))


@pytest.mark.parametrize(
    "name", ["resnet-18", "resnet-50", "mobilenet-v1", "mobilenet-v2", "mnasnet"]
)
def test_a_small_stem_keeps_small_images_large(name: str) -> None:
    sizes = []
    for stem in ("imagenet", "small"):
        model = on_meta(name, stem=stem, in_channels=1, num_classes=10)
        convolutions = [m for m in model.modules() if isinstance(m, torch.nn.Conv2d)]
        convolutions[-1].register_forward_hook(lambda *a: sizes.append(a[2].shape[-1]))
        assert answer(model, 32, channels=1).shape == (2, 10)
    assert sizes[1] in (2 * sizes[0], 4 * sizes[0])


@pytest.mark.parametrize(
    ("name", "args", "complaint"),
    [
        ("resnet-18", {"colour": 1}, "model.args of 'resnet-18': .*colour"),
        ("mobilenet-v1", {"stem": "tiny"}, "stem 'tiny' is not one of imagenet, small"),
        ("script", {}, "must pass its model to trainer.fit"),
    ],
)
def test_a_wrong_argument_is_named(name, args, complaint) -> None:
    with pytest.raises(PlanError, match=complaint):
        models.build(ModelSpec(name, args))


def test_all_arguments_that_fleetctl_lets_through_are_taken() -> None:
    sample = {
        **{"num_classes": 7, "in_channels": 1, "stem": "small", "dropout": 0.1, "pixels": 8},
        **{"zero_init_residual": True, "aux_logits": False, "dropout_aux": 0.2},
        **{"channels": 4, "hidden": 8},
    }
    for name, known in KNOWN.items():
        on_meta(name, **{arg: sample[arg] for arg in known.args})
