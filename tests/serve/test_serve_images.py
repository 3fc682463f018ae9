"""Drawings and uploads: what becomes of them, and what is refused."""

import base64
import contextlib
import io
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw, ImageOps
from serve_tools import PATIENCE, linear_service, served

from shieldwall.data import datasets
from shieldwall.data.images import MAX_PIXELS, ImageRejected
from shieldwall.errors import UserError
from shieldwall.runs.predict import read_image
from shieldwall.serve.images import FRAMES, MAX_BYTES, center_ink, from_drawing, from_upload

MNIST, DIGITS = FRAMES["mnist"], FRAMES["digits"]


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with served(linear_service()) as address, httpx.Client(base_url=address, timeout=PATIENCE) as client:
        client.headers["origin"] = address.rstrip("/")
        yield client


def encoded(image: Image.Image, kind: str = "PNG", **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def noise(size: tuple[int, int], mode: str = "L") -> Image.Image:
    shape = size[::-1] if mode == "L" else (*size[::-1], len(mode))
    return Image.fromarray(np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8), mode=None)


def stroke(side: int = 280, ink: int = 255, paper: int = 0) -> Image.Image:
    image = Image.new("L", (side, side), paper)
    ImageDraw.Draw(image).line([(0.2 * side, 0.15 * side), (0.45 * side, 0.5 * side)], ink, width=side // 12)
    return image


def chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png_that_claims(width: int, height: int) -> bytes:
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    body = chunk(b"IDAT", zlib.compress(bytes(1_000_000), 9))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + body + chunk(b"IEND", b"")


def frames(kind: str) -> bytes:
    return encoded(noise((8, 8)), kind, save_all=True, append_images=[stroke(8)])


@pytest.mark.parametrize(
    ("content", "status", "said"),
    [
        (b"", 415, "not an image"),
        (b"GIF89a", 415, "not an image"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", 415, "PNG, JPEG, WebP, BMP or GIF"),
        (encoded(noise((64, 64)))[:2_000], 415, "damaged"),
        (frames("GIF"), 415, "animated"),
        (frames("PNG"), 415, "animated"),
        (frames("WEBP"), 415, "animated"),
        (png_that_claims(5_000, 5_000), 413, "more than 24 million pixels"),
        (png_that_claims(10_000, 10_000), 413, "more than 24 million pixels"),
        (png_that_claims(60_000, 60_000), 413, "more than 24 million pixels"),
        (bytes(MAX_BYTES + 1), 413, "larger than 8 MB"),
        (encoded(Image.new("L", (50, 50))), 422, "blank"),
    ],
)
def test_an_upload_that_cannot_be_used_is_refused(
    client: httpx.Client, content: bytes, status: int, said: str
):
    answer = post_until_answered(client, content)
    assert answer.status_code == status
    assert said in answer.json()["error"]


def post_until_answered(client: httpx.Client, content: bytes) -> httpx.Response:
    """The answer to an upload, sent again where its end was still on its way when the server closed."""
    for _ in range(20):
        with contextlib.suppress(httpx.TransportError):
            return client.post("/upload", content=content)
    raise AssertionError("no upload was answered")


def test_a_body_of_unknown_length_is_given_up_once_it_is_too_large(client: httpx.Client):
    sent = 0

    def endless() -> Iterator[bytes]:
        nonlocal sent
        while sent < 50 * MAX_BYTES:
            sent += 2**20
            yield bytes(2**20)

    try:
        status = client.post("/upload", content=endless()).status_code
    except httpx.TransportError:  # the server closed the connection before it was all sent
        status = 413
    assert status == 413
    assert sent < 10 * MAX_BYTES


def test_an_image_of_the_models_size_is_taken_as_it_is(tmp_path: Path):
    for mode, shape, frame in (
        ("L", (1, 28, 28), None),
        ("L", (1, 28, 28), MNIST),
        ("RGB", (3, 28, 28), None),
    ):
        image = ImageOps.expand(noise((24, 24), mode), border=2)
        image.save(tmp_path / "image.png")
        prepared = from_upload((tmp_path / "image.png").read_bytes(), shape, frame)
        read = (read_image(tmp_path / "image.png", shape) * 255).round().byte().permute(1, 2, 0)
        assert np.array_equal(prepared.pixels, read.numpy())
        assert prepared.note == "28 x 28 pixels, as they are"


GREY = np.random.default_rng(1).integers(0, 256, (6, 9), dtype=np.uint8)
COLOURS = np.random.default_rng(2).integers(0, 256, (6, 9, 3), dtype=np.uint8)
DEEP = np.random.default_rng(3).integers(0, 65536, (6, 9), dtype=np.uint16)


def palette_with_a_clear_colour() -> Image.Image:
    image = Image.fromarray(COLOURS).quantize(16)
    image.info["transparency"] = int(np.asarray(image)[0, 0])
    return image


def see_through(mode: str) -> Image.Image:
    return Image.merge(mode, [noise((9, 6))] * (len(mode) - 1) + [Image.fromarray(GREY)])


def turned(orientation: int, kind: str = "PNG") -> bytes:
    exif = Image.Exif()
    exif[0x0112] = orientation
    lying = orientation >= 5
    # The file's rows, such that the image it shows is 9 wide and 6 high.
    return encoded(Image.fromarray(COLOURS.transpose(1, 0, 2) if lying else COLOURS), kind, exif=exif)


ALIKE = {
    "grey": encoded(Image.fromarray(GREY)),
    "I;16": encoded(Image.fromarray(DEEP)),
    "one bit": encoded(Image.fromarray(GREY).convert("1")),
    "palette": encoded(palette_with_a_clear_colour()),
    "GIF": encoded(palette_with_a_clear_colour(), "GIF"),
    "LA": encoded(see_through("LA")),
    "RGBA": encoded(see_through("RGBA")),
    "WebP": encoded(see_through("RGBA"), "WEBP", lossless=True),
    "CMYK": encoded(Image.fromarray(COLOURS).convert("CMYK"), "JPEG"),
    "BMP": encoded(Image.fromarray(COLOURS), "BMP"),
    "photo of two pictures": encoded(
        Image.fromarray(COLOURS), "MPO", save_all=True, append_images=[stroke(8)]
    ),
    **{f"turned {k}": turned(k) for k in range(1, 9)},
    **{f"JPEG turned {k}": turned(k, "JPEG") for k in (1, 6)},
}


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("kind", ALIKE)
def test_predict_and_serve_see_the_same_image(kind: str, channels: int, tmp_path: Path):
    (tmp_path / "image").write_bytes(ALIKE[kind])
    uploaded = from_upload(ALIKE[kind], (channels, 6, 9), None)
    assert uploaded.note in ("9 x 6 pixels, as they are", "9 x 6 pixels in grey, as they are")
    expected = torch.from_numpy(uploaded.pixels.astype(np.float32) / np.float32(255)).permute(2, 0, 1)
    assert torch.equal(read_image(tmp_path / "image", (channels, 6, 9)), expected)


def test_16_bits_are_scaled_not_cut_off():
    nearest = np.rint(DEEP / 65535 * 255)
    assert np.array_equal(from_upload(ALIKE["I;16"], (1, 6, 9), None).pixels[:, :, 0], nearest)
    assert np.array_equal(from_upload(ALIKE["I;16"], (3, 6, 9), None).pixels[:, :, 1], nearest)


def test_every_exif_orientation_is_turned_back():
    """The file's rows, by what EXIF says of them: which side of the image its first row and column are."""
    upright = {
        1: lambda rows: rows, 2: lambda rows: rows[:, ::-1], 3: lambda rows: rows[::-1, ::-1],
        4: lambda rows: rows[::-1], 5: lambda rows: rows.transpose(1, 0, 2),
        6: lambda rows: np.rot90(rows, -1), 7: lambda rows: rows.transpose(1, 0, 2)[::-1, ::-1],
        8: lambda rows: np.rot90(rows),
    }  # fmt: skip
    for orientation, turn in upright.items():
        rows = COLOURS.transpose(1, 0, 2) if orientation >= 5 else COLOURS
        assert np.array_equal(from_upload(turned(orientation), (3, 6, 9), None).pixels, turn(rows))


@pytest.mark.parametrize("mode", ["LA", "RGBA"])
def test_what_is_clear_lies_on_white(mode: str):
    color, alpha = np.asarray(noise((9, 6))).astype(float), GREY.astype(float)
    expected = (color * alpha + 255 * (255 - alpha)) / 255
    shown = from_upload(ALIKE[mode], (3, 6, 9), None).pixels[:, :, 0]
    assert np.abs(shown - expected).max() <= 1


@pytest.mark.parametrize(
    "content",
    [
        b"GIF89a", encoded(noise((64, 64)))[:2_000], frames("GIF"), frames("PNG"), frames("WEBP"),
        png_that_claims(5_000, MAX_PIXELS // 5_000 + 1), png_that_claims(60_000, 60_000),
    ],
)  # fmt: skip
def test_predict_refuses_what_serve_refuses_in_its_words(content: bytes, tmp_path: Path):
    file = tmp_path / "image"
    file.write_bytes(content)
    with pytest.raises(ImageRejected) as by_serve:
        from_upload(content, (1, 8, 8), None)
    with pytest.raises(UserError) as by_predict:
        read_image(file, (1, 8, 8))
    assert str(by_predict.value) == f"{file}: {by_serve.value}"


def test_digits_of_the_data_set_are_taken_as_they_are():
    images = datasets.load("digits").test.images(range(360))
    for pixels in (images * 255).round().byte().numpy()[:, 0]:
        prepared = from_upload(encoded(Image.fromarray(pixels)), (1, 8, 8), DIGITS)
        assert np.array_equal(prepared.pixels[:, :, 0], pixels)


def test_dark_ink_on_paper_of_the_models_size_is_inverted():
    on_paper = stroke(28, ink=0, paper=255)
    prepared = from_upload(encoded(on_paper), (1, 28, 28), MNIST)
    assert np.array_equal(prepared.pixels[:, :, 0], 255 - np.asarray(on_paper))
    assert prepared.note == "28 x 28 pixels, inverted"
    coloured = from_upload(encoded(on_paper.convert("RGB")), (1, 28, 28), MNIST)
    assert coloured.note == "28 x 28 pixels in grey, inverted"


@pytest.mark.parametrize("side", [28, 29])
@pytest.mark.parametrize("grey", [0, 128, 200, 255])
def test_an_image_of_one_grey_is_blank(side: int, grey: int):
    with pytest.raises(ImageRejected, match="blank") as refused:
        from_upload(encoded(Image.new("L", (side, side), grey)), (1, 28, 28), MNIST)
    assert refused.value.status == 422


def test_other_sizes_are_cut_and_resized_and_the_note_says_so():
    halves = Image.new("RGB", (200, 100), "red")
    halves.paste("blue", (100, 0, 200, 100))
    prepared = from_upload(encoded(halves), (3, 32, 32), None)
    assert prepared.note == "200 x 100 pixels, cut to the middle and resized to 32 x 32"
    assert prepared.pixels[0, 0].tolist() == [255, 0, 0]
    assert prepared.pixels[31, 31].tolist() == [0, 0, 255]
    grey = from_upload(encoded(Image.new("RGB", (64, 64), "white")), (1, 28, 28), None)
    assert grey.note == "64 x 64 pixels, resized to 28 x 28 in grey"
    assert (grey.pixels == 255).all()


def test_deep_transparent_and_turned_images_are_read_as_they_look():
    deep = Image.fromarray(np.full((64, 64), 128 * 257, dtype=np.uint16))
    assert (from_upload(encoded(deep), (1, 8, 8), None).pixels == 128).all()
    clear = Image.new("RGBA", (64, 64), (0, 0, 0, 0))
    assert (from_upload(encoded(clear), (3, 8, 8), None).pixels == 255).all()
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned a quarter clockwise
    top = Image.new("RGB", (64, 64), "black")
    top.paste("white", (0, 0, 64, 32))
    turned = from_upload(encoded(top, "JPEG", quality=95, exif=exif), (3, 8, 8), None).pixels
    assert turned[:, 5:].min() > 240
    assert turned[:, :3].max() < 15


def test_dark_ink_on_paper_becomes_what_bright_ink_on_black_does():
    on_black = from_upload(encoded(stroke()), (1, 28, 28), MNIST)
    on_paper = from_upload(encoded(stroke(ink=0, paper=255)), (1, 28, 28), MNIST)
    assert np.array_equal(on_black.pixels, on_paper.pixels)
    assert "inverted" in on_paper.note
    assert "inverted" not in on_black.note
    assert np.array_equal(on_black.pixels, from_drawing(encoded(stroke()), MNIST).pixels)


@pytest.mark.parametrize("shift", [(0, 0), (60, 90), (-40, 20)])
def test_a_drawing_for_mnist_fits_20_pixels_and_has_its_mass_in_the_middle(shift: tuple[int, int]):
    moved = Image.new("L", (400, 400))
    moved.paste(stroke(), (60 + shift[0], 60 + shift[1]))
    centered = center_ink(np.asarray(moved), MNIST).astype(float)
    rows, columns = np.flatnonzero(centered.any(1)), np.flatnonzero(centered.any(0))
    assert max(np.ptp(rows), np.ptp(columns)) + 1 == 20
    middles = np.arange(28) + 0.5
    assert abs(centered.sum(1) @ middles / centered.sum() - 14) <= 0.5
    assert abs(centered.sum(0) @ middles / centered.sum() - 14) <= 0.5
    assert centered.max() == 255
    assert np.array_equal(centered, center_ink(np.asarray(stroke()), MNIST))


def test_a_drawing_for_digits_is_as_high_as_the_frame_and_in_the_middle():
    centered = center_ink(np.asarray(stroke()), DIGITS)
    assert centered.shape == (8, 8)
    assert centered[0].any()
    assert centered[7].any()
    assert np.array_equal(center_ink(np.asarray(stroke())[:, ::-1], DIGITS), centered[:, ::-1])


def test_digits_drawn_large_come_back_much_as_they_were():
    """The test digits, enlarged 35 times on a canvas: the mean grey level differs by 0.076 from 0.305."""
    images = datasets.load("digits").test.images(range(0, 360, 6))
    pixels = (images * 255).byte().numpy()[:, 0]
    large = [
        Image.fromarray(np.pad(picture, 2)).resize((280, 280), Image.Resampling.BICUBIC) for picture in pixels
    ]
    again = np.stack([center_ink(np.asarray(picture), DIGITS) for picture in large]) / 255
    assert np.abs(again - pixels / 255).mean() < 0.09


def test_a_blank_drawing_and_one_for_garments_are_refused(client: httpx.Client):
    assert client.post("/drawing", content=encoded(Image.new("L", (280, 280)))).status_code == 422
    with served(linear_service(data="fashion-mnist")) as address:
        answer = httpx.post(
            f"{address}drawing", content=encoded(stroke()), headers={"origin": address.rstrip("/")}
        )
    assert answer.status_code == 404
    assert "handwritten digits" in answer.json()["error"]


def test_a_drawing_comes_back_as_the_networks_get_it(client: httpx.Client):
    answer = client.post("/drawing", content=encoded(stroke())).json()
    assert base64.b64decode(answer["pixels"]) == center_ink(np.asarray(stroke()), DIGITS).tobytes()
    assert answer["note"] == "your drawing, resized and centred in 8 x 8"


def test_test_images_come_by_number(client: httpx.Client):
    answer = client.get("/test/2").json()
    expected = torch.arange(128, 192, dtype=torch.uint8).numpy().tobytes()
    assert base64.b64decode(answer["pixels"]) == expected
    assert answer["note"] == "test image 2, class bright"
    beyond = client.get("/test/3")
    assert (beyond.status_code, beyond.json()["error"]) == (
        404,
        "there is no test image 3: they go from 0 to 2",
    )


@pytest.mark.parametrize("index", ["-1", "x", "1_0", "9" * 30, "9" * 5_000])
def test_what_is_no_test_image_is_said_shortly(client: httpx.Client, index: str):
    answer = client.get(f"/test/{index}")
    assert answer.status_code == 404
    assert answer.json()["error"].startswith(f"there is no test image {index[:9]}")
    assert len(answer.json()["error"]) < 80


def test_a_refusal_is_a_users_error():
    with pytest.raises(ImageRejected, match="not an image"):
        from_upload(b"?", (1, 8, 8), None)
