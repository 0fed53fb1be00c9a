"""Image folders become square images; broken ones, links and odd classes are named."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import numpy as np
from data_formats import (
    added,
    as_set,
    paired,
    pixels,
    refused,
    write_images,
)
from PIL import Image

from fleetctl.provision import data
from fleetctl.provision.sources import Options
from trainer.data import load
from trainer.formats import DataManifest


def test_image_folders_are_decoded_upright_and_square(tmp_path) -> None:
    cats, dogs = [pixels(8, 8, 3) for _ in range(3)], [pixels(8, 8) for _ in range(2)]
    write_images(tmp_path / "i/train", {"cat": cats, "dog": dogs})
    write_images(tmp_path / "i/val", {"cat": cats[:1], "dog": dogs})
    (tmp_path / "i/train/cat/notes.txt").write_text("no image")
    (tmp_path / "i/train/.hidden").mkdir()
    loaded = added(tmp_path / "data", tmp_path / "i", size=8)
    colour = [image.transpose(2, 0, 1) for image in cats]
    grey = [np.stack([image] * 3) for image in dogs]
    expected = paired(np.array(colour + grey), np.array([0, 0, 0, 1, 1]))
    assert as_set(loaded.train) == expected
    assert len(loaded.test) == 3
    assert DataManifest.read(tmp_path / "data/some/manifest.json").class_names == ("cat", "dog")


def test_an_image_is_cropped_in_the_middle_or_squashed_and_turned_as_its_camera_says() -> None:
    from fleetctl.provision.sources.folders import decode

    wide = np.zeros((10, 30, 3), np.uint8)
    wide[:, 10:20] = 200
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "wide.png"
        Image.fromarray(wide).save(path)
        assert (decode(path, 10, "crop") == 200).all()
        squashed = decode(path, 10, "squash")
        assert (squashed[:, :, 0] == 0).all()
        assert (squashed[:, :, 5] > 190).all()
        turned = Image.fromarray(wide)
        exif = turned.getexif()
        exif[0x0112] = 6  # the camera was held upright: show it turned by a quarter
        turned.save(path, exif=exif)
        assert (decode(path, 10, "crop") == 200).all()
        upright = decode(path, 10, "squash")
        assert (upright[:, 0] == 0).all()
        assert (upright[:, 5] > 190).all()


def test_broken_images_are_all_named_or_left_out_on_request(tmp_path) -> None:
    source, home = tmp_path / "i", tmp_path / "data"
    write_images(source, {"a": [pixels(6, 6, 3)] * 9, "b": [pixels(6, 6, 3)] * 9})
    cut = source / "a/003.png"
    cut.write_bytes(cut.read_bytes()[:60])
    (source / "b/004.png").write_bytes(b"")
    Image.fromarray(np.zeros((6, 6), np.uint16)).save(source / "b/005.png")
    said = refused(home, source, size=6)
    assert "3 images cannot be decoded" in said
    for name in ("a/003.png", "b/004.png", "b/005.png: mode I;16: more than 8 bits"):
        assert f"{source / name}" in said
    found, _ = data.add(data.Wish("some", source, options=Options(6, None, True)), home)
    assert (found.train_samples + found.test_samples, found.skipped) == (15, 3)
    assert str(cut) in (home / "some/skipped.txt").read_text()
    assert len(load(home / "some").train) == found.train_samples


def test_a_bomb_of_pixels_is_a_broken_image(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 30)
    write_images(tmp_path / "i", {"a": [pixels(6, 6, 3)] * 5, "b": [pixels(4, 4, 3)] * 5})
    said = refused(tmp_path / "data", tmp_path / "i", size=6)
    assert "5 images cannot be decoded" in said
    assert "decompression bomb" in said


def test_image_folders_that_make_no_sense_are_refused(tmp_path) -> None:
    home, source = tmp_path / "data", tmp_path / "i"
    write_images(source, {"a": [pixels(4, 4, 3)] * 6, "b": [pixels(4, 4, 3)] * 6})
    assert "say how large its images shall be, such as --size" in refused(home, source)
    (source / "c").mkdir()
    assert f"{source / 'c'}: no images; remove this class" in refused(home, source, size=4)
    (source / "c").rmdir()
    write_images(source, {"A": [pixels(4, 4, 3)]})
    assert "'A' and 'a' name one class twice" in refused(home, source, size=4)
    shutil.rmtree(source / "A")

    secret = tmp_path / "secret.png"
    Image.fromarray(pixels(4, 4, 3)).save(secret)
    (source / "a/link.png").symlink_to(secret)
    assert f"{source}/a/link.png: a link to {secret}, outside of" in refused(home, source, size=4)
    (source / "a/link.png").unlink()
    (source / "a/inside.png").symlink_to(source / "a/001.png")
    (source / "a/more").symlink_to(source / "b")
    assert "a link to a folder" in refused(home, source, size=4)
    (source / "a/more").unlink()
    assert len(added(home, source, size=4).train) == 10

    only = tmp_path / "one"
    write_images(only, {"a": [pixels(4, 4, 3)] * 6})
    assert "fewer than 2 classes" in refused(home, only, kind="images", size=4)
    both = tmp_path / "both"
    for name in ("train", "test", "val"):
        write_images(both / name, {"a": [pixels(4, 4, 3)], "b": [pixels(4, 4, 3)]})
    assert "test and val are both there" in refused(home, both, size=4)
    shutil.rmtree(both / "val")
    write_images(both / "test", {"z": [pixels(4, 4, 3)]})
    assert "class 'z' is not in" in refused(home, both, size=4)
