"""The arithmetic and the page of the comparison of several brokers of a machine with one, without a broker."""


def test_allowed_ratio_is_bounded_by_the_brokers_and_by_all_cores() -> None:
    from bench_cores import Measured, allowed

    assert allowed(Measured(1.0, 1.0, 0.0), cores=2, brokers=2) == 2.0
    assert allowed(Measured(1.0, 1.0, 1.0), cores=2, brokers=2) == 1.0
    assert allowed(Measured(1.0, 1.0, 1.0), cores=8, brokers=4) == 4.0


def test_table_has_a_row_for_each_load_with_the_ratio_of_the_medians() -> None:
    from bench_cores import LOADS, Measured, table

    one, two = Measured(1_000.0, 1e-3, 1e-4), Measured(1_600.0, 1e-3, 1e-4)
    rows = table({(load.name, count): [each] * 3 for load in LOADS for count, each in ((1, one), (2, two))}, 2, 4)
    assert [row.split("|")[5].strip() for row in rows[2:]] == ["1.60"] * len(LOADS)
