"""Change points: steps, drifts, outliers and equal nights, all synthetic and from seeds."""

from __future__ import annotations

import numpy as np
import pytest

from reports import changes

SD = 0.015
NIGHTS = 60


def noisy(seed: int, sd: float = SD) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, sd, NIGHTS)


def found(y, threshold: float = 0.02, cases: int = 20) -> changes.Segments:
    return changes.find(np.exp(y), threshold, cases)


def first_night(y, at: int, within: int = 1) -> int:
    """Nights from the step until it is found, counting the night of the step as the first."""
    for last in range(changes.FEWEST_NIGHTS, len(y) + 1):
        if any(abs(c.at - at) <= within for c in found(y[:last]).changes):
            return last - at
    return NIGHTS


def test_a_step_of_ten_percent_is_found_on_its_third_night():
    nights = []
    for seed in range(30):
        y = noisy(seed)
        y[40:] += np.log(1.10)
        nights.append(first_night(y, 40))
    assert nights == [3] * len(nights)


def test_a_step_down_is_found_too_and_its_size_is_right():
    y = noisy(1)
    y[40:] += np.log(0.8)
    (change,) = found(y).changes
    assert change.at == 40
    assert change.ratio == pytest.approx(0.8, abs=0.02)
    assert change.kind == "step"
    assert change.p < changes.LEVEL


def test_a_large_step_does_not_hide_a_small_one_after_it():
    """Over all nights the spread is tripled many times; within segments it is not."""
    for seed in range(10):
        y = noisy(seed)
        y[20:] += np.log(3)
        y[45:] += np.log(1.10)
        assert first_night(y, 45) == 3
        segments = found(y)
        assert [c.at for c in segments.changes][0] == 20
        assert segments.sd == pytest.approx(SD, rel=0.4)
        assert np.std(y) > 20 * SD


@pytest.mark.parametrize("size", [0.1, 0.5, 3.0])
@pytest.mark.parametrize("nights", [1, 2])
def test_an_outlier_or_two_are_no_step(nights, size):
    for seed in range(10):
        y = noisy(seed)
        y[30 : 30 + nights] += size
        assert not any(found(y[:last]).changes for last in range(8, NIGHTS + 1))


def test_equal_nights_raise_few_false_changes():
    """100 cases x 60 nights looked at every night, as 20 cases each; heavy tails too."""
    for draw in (lambda r: r.normal(0, SD, NIGHTS), lambda r: SD * r.standard_t(3, NIGHTS)):
        rng, wrong = np.random.default_rng(5), 0
        for _ in range(100):
            y = draw(rng)
            wrong += any(found(y[:last]).changes for last in range(8, NIGHTS + 1))
        assert wrong <= 2


def test_a_drift_is_found_as_later_changes():
    for seed in range(10):
        y = noisy(seed)
        y[20:] += 0.005 * np.arange(NIGHTS - 20)
        segments = found(y)
        assert 1 <= len(segments.changes) <= 4
        assert all(c.size > 0 and c.at > 20 for c in segments.changes)


def test_a_plain_ramp_is_called_drift():
    y = noisy(3, 0.002) + 0.01 * np.arange(NIGHTS)
    assert "drift" in {c.kind for c in found(y).changes}


def test_nights_without_any_noise_change_by_the_threshold_alone():
    y = np.zeros(NIGHTS)
    assert not found(y).changes
    y[30:] = np.log(1.019)
    assert not found(y).changes
    y[30:] = np.log(1.03)
    assert [c.at for c in found(y).changes] == [30]


@pytest.mark.parametrize("nights", range(1, changes.FEWEST_NIGHTS))
def test_few_nights_say_nothing(nights):
    y = np.zeros(nights)
    y[-1] = 1
    assert not changes.find(np.exp(y), 0.02).changes


def test_more_cases_ask_for_more():
    """A step that is found among few cases is not yet certain among thousands."""
    y = noisy(2)[:43]
    y[40:] += np.log(1.06)
    assert found(y, cases=1).changes
    assert not found(y, cases=100_000).changes
