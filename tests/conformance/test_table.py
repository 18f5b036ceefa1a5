"""Every case is held by a test that says so, or has one reason why none does."""

import re

import pytest

from tests.conformance.table import README, Row, docstrings, doubled, held, ids_of, rows

ROWS = rows(README.read_text())
NAMED = docstrings()


def numbers(letter: str) -> list[int]:
    return sorted(int(row.id[1:]) for row in ROWS if row.id.startswith(letter))


def test_no_case_is_missing_or_listed_twice() -> None:
    assert not doubled([row.id for row in ROWS])
    assert numbers("C") == list(range(1, 175))
    assert numbers("P") == list(range(1, 36))
    assert len(numbers("B")) == 105


@pytest.mark.parametrize("row", ROWS, ids=[row.id for row in ROWS])
def test_a_case_is_held_by_a_test_or_left_out_for_a_reason(row: Row) -> None:
    assert bool(row.tests) != bool(row.reason), f"{row.id} is neither held nor left out"
    for name in row.tests:
        assert name in NAMED, f"there is no test {name}"
        assert row.id in ids_of(NAMED[name]), f"the docstring of {name} does not begin with {row.id}"


def test_no_test_claims_a_case_that_does_not_exist_or_is_left_out() -> None:
    listed = {row.id: row for row in ROWS}
    for id, tests in held().items():
        assert id in listed, f"{tests} hold {id}, which no table has"
        assert not listed[id].reason, f"{tests} hold {id}, which is left out"


def test_every_mutation_names_tests_that_exist() -> None:
    text = README.read_text().partition("## Mutations")[2]
    names = re.findall(r"`([\w/]+\.py::\w+)`", text)
    assert len(re.findall(r"^\| K\d\d \|", text, re.M)) >= 21
    assert names
    assert not [name for name in names if name not in NAMED]
