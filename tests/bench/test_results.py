"""Sums of samples."""

from bench.results import spread


def test_percentiles_are_values_that_occurred() -> None:
    assert spread(range(1, 201)) == {"p50": 100, "p99": 198, "max": 200}
    assert spread([3.0, 1.0]) == {"p50": 1.0, "p99": 3.0, "max": 3.0}


def test_no_samples_have_no_percentiles() -> None:
    assert spread([]) == {}
