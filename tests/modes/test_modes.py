"""Whatever happens to its worker or its history, a run tells models the same and ends the same."""

import asyncio
import random
from collections.abc import AsyncIterator

import pytest
from temporalio.client import Client

from scenarios import SCENARIOS, Scenario, Variant
from tests.play import Played, Stage, TurnsAtEveryChance, TurnsAtRandom, play, snapshot, snapshot_file

ALL = [(scenario, variant) for scenario in SCENARIOS.values() for variant in scenario.variants.values()]
FIRST = [(scenario, scenario.variant()) for scenario in SCENARIOS.values()]
REST = [pair for pair in ALL if pair not in FIRST]


def each(pairs: list[tuple[Scenario, Variant]]) -> pytest.MarkDecorator:
    names = [f"{scenario.name}-{variant.name}" for scenario, variant in pairs]
    return pytest.mark.parametrize(("scenario", "variant"), pairs, ids=names)


def assert_as_recorded(played: Played, scenario: Scenario, variant: Variant) -> None:
    assert snapshot(played.prompts) == snapshot_file(scenario, variant).read_text()
    assert played.result.status == variant.status
    for words in variant.says:
        assert words in played.result.answer
    assert played.asked
    assert played.result.audit.refused == []
    assert [entry.id for entry in played.result.audit.closed] == [listed.id for listed in played.asked]


def test_every_variant_has_a_snapshot_and_every_snapshot_a_variant() -> None:
    recorded = {path.name for path in snapshot_file(*ALL[0]).parent.glob("*.txt")}
    assert recorded == {snapshot_file(scenario, variant).name for scenario, variant in ALL}


@pytest.fixture(scope="module")
async def cold(client: Client) -> AsyncIterator[Stage]:
    async with Stage(client, options={"max_cached_workflows": 0}).served() as stage:
        yield stage


@each(ALL)
async def test_a_run_that_no_worker_remembers(cold: Stage, scenario: Scenario, variant: Variant) -> None:
    """B113: nothing is cached, every task replays the history."""
    assert_as_recorded(await play(cold, scenario, variant), scenario, variant)


@pytest.fixture(scope="module")
async def turning(client: Client) -> AsyncIterator[Stage]:
    async with Stage(client, workflows=[TurnsAtEveryChance]).served() as stage:
        yield stage


async def turn_pages(stage: Stage, scenario: Scenario, variant: Variant) -> None:
    played = await play(stage, scenario, variant)
    assert_as_recorded(played, scenario, variant)
    assert played.result.pages >= 1


@each(FIRST)
async def test_a_run_that_turns_its_page_at_every_chance(
    turning: Stage, scenario: Scenario, variant: Variant
) -> None:
    """B112: at every question, and in the middle of every batch"""
    await turn_pages(turning, scenario, variant)


@pytest.mark.slow
@each(REST)
async def test_every_variant_turns_its_page_at_every_chance(
    turning: Stage, scenario: Scenario, variant: Variant
) -> None:
    """B112"""
    await turn_pages(turning, scenario, variant)


@pytest.mark.slow
@pytest.mark.timeout(1500)
async def test_a_thousand_pages_turned_at_random_moments(client: Client) -> None:
    """Over all patterns, decided all the while by signal and by update: 0 lost, 0 twice, all end as recorded"""
    turned = [0]

    async def lane(number: int) -> None:
        chance = random.Random(number)
        async with Stage(client, workflows=[TurnsAtRandom]).served() as stage:
            played = 0
            while turned[0] < 1_000:
                scenario, variant = ALL[(number * 5 + played) % len(ALL)]
                one = await play(stage, scenario, variant, by_signal=lambda: chance.random() < 0.5)
                assert_as_recorded(one, scenario, variant)
                turned[0] += one.result.pages
                played += 1

    await asyncio.gather(*(lane(number) for number in range(6)))


async def change_workers(client: Client, scenario: Scenario, variant: Variant) -> None:
    stage = Stage(client)
    changes = 0
    worker = asyncio.create_task(_run(stage))

    async def change() -> None:
        nonlocal worker, changes
        changes += 1
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)
        worker = asyncio.create_task(_run(stage))

    try:
        assert_as_recorded(await play(stage, scenario, variant, before_deciding=change), scenario, variant)
        assert changes >= 1
    finally:
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)


async def _run(stage: Stage) -> None:
    async with stage.served():
        await asyncio.Event().wait()


@each(FIRST)
async def test_a_run_whose_worker_changes_at_every_question(
    client: Client, scenario: Scenario, variant: Variant
) -> None:
    """B109"""
    await change_workers(client, scenario, variant)


@pytest.mark.slow
@each(REST)
async def test_every_variant_outlives_its_workers(
    client: Client, scenario: Scenario, variant: Variant
) -> None:
    """B109"""
    await change_workers(client, scenario, variant)
