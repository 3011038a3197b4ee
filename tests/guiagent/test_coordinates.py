"""Golden sizes of Qwen-VL's processors, and there and back for every coordinate space."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guiagent.dialects.coordinates import CoordinateSpace, smart_resize
from guiagent.errors import UsageError

SPACES = [
    CoordinateSpace.resized(28),
    CoordinateSpace.resized(32),
    CoordinateSpace("norm1000"),
    CoordinateSpace("norm999"),
    CoordinateSpace("frame"),
    CoordinateSpace("fitted"),
]
sides = st.integers(160, 4096)


@pytest.mark.parametrize(
    ("width", "height", "factor", "expected"),
    [
        (1920, 1080, 28, (1932, 1092)),
        (1920, 1080, 32, (1920, 1088)),
        (1080, 2400, 28, (1092, 2408)),
        (1022, 766, 28, (1008, 756)),  # 36.5 patches: even, so 36; rounding halves up would give 1036
        (160, 224, 32, (160, 224)),
        (160, 210, 28, (168, 224)),
        (20, 20, 28, (56, 56)),  # enlarged to the least area
        (8000, 6000, 28, (4116, 3080)),  # shrunk to the greatest
    ],
)
def test_smart_resize_gives_the_sizes_of_the_processors(
    width: int, height: int, factor: int, expected: tuple[int, int]
) -> None:
    assert smart_resize(width, height, factor, 4 * factor**2, 16384 * factor**2) == expected


@given(st.integers(1, 8000), st.integers(1, 8000), st.sampled_from([14, 28, 32]))
def test_smart_resize_keeps_its_bounds(width: int, height: int, factor: int) -> None:
    least, most = 4 * factor**2, 1280 * factor**2
    if max(width, height) > 200 * min(width, height):
        with pytest.raises(UsageError, match="200-fold"):
            smart_resize(width, height, factor, least, most)
        return
    w, h = smart_resize(width, height, factor, least, most)
    assert w % factor == h % factor == 0
    assert least <= w * h
    assert w * h <= most or min(w, h) == factor


@pytest.mark.parametrize("size", [(0, 100), (100, 0), (-3, 4), (201, 1)])
def test_a_frame_without_a_sensible_shape_is_refused_in_one_line(size: tuple[int, int]) -> None:
    with pytest.raises(UsageError) as caught:
        CoordinateSpace.resized(28).extent(size)
    assert "\n" not in str(caught.value)


@given(st.sampled_from(SPACES), sides, sides, st.data())
def test_a_pixel_comes_back_from_model_space(
    space: CoordinateSpace, width: int, height: int, data: st.DataObject
) -> None:
    pixel = data.draw(st.integers(0, width - 1)), data.draw(st.integers(0, height - 1))
    there = space.from_device(pixel, (width, height))
    back = space.to_device(there, (width, height))
    for side, extent, most, before, after in zip(
        (width, height), space.extent((width, height)), space.drift((width, height)), pixel, back, strict=True
    ):
        bounds = {"resized": 1.0, "norm1000": side / 2000 + 0.5, "norm999": side / 1998 + 0.5, "frame": 0.0}
        assert abs(after - before) <= min(most, bounds.get(space.kind, 2.0))
        if side <= extent:
            assert after == before


@given(st.sampled_from(SPACES), sides, sides, st.tuples(*[st.floats(-1e6, 1e6)] * 2))
def test_any_point_lands_in_the_frame(
    space: CoordinateSpace, width: int, height: int, point: tuple[float, float]
) -> None:
    x, y = space.to_device(point, (width, height))
    assert 0 <= x < width
    assert 0 <= y < height


def test_each_space_reads_the_middle_of_the_screen_in_its_own_units() -> None:
    size = (1920, 1080)
    assert CoordinateSpace.resized(28).to_device((966, 546), size) == (960, 540)
    assert CoordinateSpace("norm1000").to_device((500, 500), size) == (960, 540)
    assert CoordinateSpace("norm999").to_device((999, 999), size) == (1919, 1079)  # clamped to the frame
    assert CoordinateSpace("norm999").to_device((500, 500), size) == (961, 541)
