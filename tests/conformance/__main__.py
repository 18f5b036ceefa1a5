"""Write into the tables of README.md which test holds which case."""

from tests.conformance.table import README, written

README.write_text(written(README.read_text()))
