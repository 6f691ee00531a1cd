"""docs/generate_kafka_releases.py reads franz-go's release functions: inherited, raised, added and deleted APIs."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[3]
SOURCE = """
func z080() *release {
	return &release{reqs: map[int16]req{
		0: {key: 0}, // 0 produce
	}}
}

func z20() *release {
	now := z080().clone(2, 0)
	now.incmax(0, 6) // 6 produce, not now.incmax(0, 7)
	now.addkey(18)
	return now
}

func z28() *release {
	now := z20().clone(2, 8)
	return now
}

func z30() *release {
	now := z28().clone(3, 0)
	now.incmax(18, 3)
	return now
}

func b28() *release {
	return &release{reqs: map[int16]req{
		0: {key: 0, vmax: 9},
		55: {key: 55, vmax: 0},
	}}
}

func b30() *release {
	now := b28().clone(3, 0)
	delete(now.reqs, 55)
	now.addkeyver(22, 4)
	now.setmin(0, 3)
	return now
}
"""


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_kafka_releases", ROOT / "docs/generate_kafka_releases.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_releases_are_read_with_what_they_inherit(script: ModuleType) -> None:
    found = script.read_releases(SOURCE)
    assert found == {
        ("z", 2, 0): {0: 6, 18: 0},
        ("z", 2, 8): {0: 6, 18: 0},
        ("z", 3, 0): {0: 6, 18: 3},
        ("b", 2, 8): {0: 9, 55: 0},
        ("b", 3, 0): {0: 9, 22: 4},
    }


def test_rows_have_the_higher_of_both_kinds_and_kraft_counts_from_3_0(script: ModuleType) -> None:
    releases, rows = script.rows(script.read_releases(SOURCE))
    assert releases == ["2.0", "2.8", "3.0"]
    assert (rows[0], rows[22], rows[55]) == ("2.0:6 3.0:9", "3.0:4", "")
