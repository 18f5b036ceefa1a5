"""Results that look drawn by lot and are always the same: computed from the arguments, as Eino's examples do it."""


def fnv1a(text: str) -> int:
    """The 32-bit FNV-1a hash of a text."""
    value = 0x811C9DC5
    for byte in text.encode():
        value = (value ^ byte) * 0x01000193 % 2**32
    return value


def between(least: int, most: int, seed: str) -> int:
    """A number from *least* to *most*, the same for the same seed."""
    return least + fnv1a(seed) % (most - least + 1)


def number(value: float) -> int | float:
    """A number as it is written by hand: 500, not 500.0."""
    return int(value) if value == int(value) else value
