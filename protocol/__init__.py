"""The words and rules of the house: pure data, no clock, no I/O, no Temporal."""
