"""A person with nothing but the Temporal UI finds what waits, reads the question, and decides it.

With SIGNOFF_PICTURES=docs/pictures the pictures of docs/ui.md are taken anew.
"""

import asyncio
import contextlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.common.exceptions import TimeoutException
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait
from temporalio.client import Client

from activities.tools import tool
from converter import DATA_CONVERTER
from devserver import dev_server
from protocol.agents import Chat
from tests.kit import Run, calls, house, says

pytestmark = [pytest.mark.browser, pytest.mark.timeout(180)]

FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    "--window-size=1400,1000",
]
PICTURES = os.environ.get("SIGNOFF_PICTURES")


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[webdriver.Chrome]:
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        assert not os.environ.get("SIGNOFF_REQUIRE_ALL"), "chromium and chromium-driver are missing"
        pytest.skip("chromium and chromium-driver are missing")
    options = webdriver.ChromeOptions()
    for flag in (*FLAGS, f"--user-data-dir={tmp_path / 'profile'}"):
        options.add_argument(flag)
    options.binary_location = chromium
    opened = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    yield opened
    opened.quit()


class Person:
    """Somebody at the browser: looks for words and for buttons, and waits until they are there."""

    def __init__(self, browser: webdriver.Chrome) -> None:
        self.browser = browser

    def find(self, selector: str, words: str = "", within: float = 30) -> WebElement:
        def visible(browser: webdriver.Chrome) -> WebElement | None:
            found = browser.find_elements(By.CSS_SELECTOR, selector)
            shown = [each for each in found if each.is_displayed()]
            return next((each for each in shown if words.lower() in each.text.lower()), None)

        found = WebDriverWait(self.browser, within).until(visible, f"no {selector} with {words!r}")
        assert found is not None
        return found

    def open(self, url: str, words: str) -> None:
        """Open a page; once more if the server has just begun to serve it."""
        for _ in range(6):
            self.browser.get(url)
            with contextlib.suppress(TimeoutException):
                self.find("button", words, within=6)
                return
        self.find("button", words)

    def details(self, words: str) -> str:
        """What the run says of itself: the UI renders it in a frame of its own."""

        def said(browser: webdriver.Chrome) -> str | None:
            for frame in browser.find_elements(By.TAG_NAME, "iframe"):
                browser.switch_to.frame(frame)
                text = browser.find_element(By.TAG_NAME, "body").text
                browser.switch_to.default_content()
                if words in text:
                    return text
            return None

        found = WebDriverWait(self.browser, 30).until(said, f"no details with {words!r}")
        assert found is not None
        return found

    def picture(self, name: str) -> None:
        if PICTURES:
            self.browser.save_screenshot(str(Path(PICTURES) / f"{name}.png"))

    def decide(self, url: str, what: str, text: str) -> None:
        """Send the update or signal ``resume`` in the UI's own dialog."""
        self.open(url, "More Actions")
        self.find("button", "More Actions").click()
        self.find(f"[data-testid={what}-button]").click()
        self.find(f"[data-testid={what}-select-button]").click()
        self.find("[role=option]", "resume").click()
        data = self.find("dialog[open] .cm-content")
        data.click()
        # As a person pastes it; typed, the editor would close every brace a second time.
        self.browser.execute_script("document.execCommand('insertText', false, arguments[0])", text)
        if what == "update":
            self.picture("ui-update")
        for _ in range(5):
            # Left for the first time, the editor lays the JSON out anew and the button moves away from the click.
            self.find("dialog[open] button", "Submit").click()
            with contextlib.suppress(TimeoutException):
                WebDriverWait(self.browser, 4).until(
                    lambda browser: not browser.find_elements(By.CSS_SELECTOR, "dialog[open]")
                )
                return
        raise AssertionError(f"the dialog stays open: {self.find('dialog[open]').text}")


@tool(approval=True)
def refund(order: str, amount: float) -> str:
    """Refund an order."""
    return f"refunded {amount:.2f} EUR for order {order}"


def look_and_decide(person: Person, home: str, what: str) -> None:
    """Open the run, read its question, and answer as the page says."""
    person.open(f"{home}/workflows/refund-7", "More Actions")
    person.browser.get(f"{person.browser.current_url.rpartition('/')[0]}/user-metadata")
    question = person.details("Waiting for 1 decision")
    assert "support>refund:call_1" in question
    assert '"arguments": {"order": "7", "amount": 250}' in question
    assert '"The customer was charged `twice`."' in question  # not Markdown of the model's
    assert "approval, since" in question
    person.picture("ui-question")
    [answer] = [line for line in question.splitlines() if '"targets"' in line and '"approve"' in line]
    assert json.loads(answer)["targets"] == {"support>refund:call_1": {"decision": "approve"}}
    person.decide(person.browser.current_url, what, answer)
    person.browser.get(f"{home}/workflows/refund-7")
    person.find("main", "completed")
    person.picture("ui-completed")


@pytest.mark.parametrize("what", ["update", "signal"])
async def test_a_run_is_decided_from_the_temporal_ui_alone(browser: webdriver.Chrome, what: str) -> None:
    script = [
        calls(("refund", "call_1", {"order": "7", "amount": 250}), text="The customer was charged `twice`."),
        says("Order 7 is refunded."),
    ]
    async with dev_server(ui=True) as server:
        client = await Client.connect(server.address, data_converter=DATA_CONVERTER)
        async with house(client, [refund], script) as h:
            run: Run = await h.start(
                Chat(name="support", tools=h.specs), "Please refund order 7: 250 euros.", id="refund-7"
            )
            await run.waiting(1)
            home = f"{server.ui_url}/namespaces/default"
            await asyncio.to_thread(look_and_decide, Person(browser), home, what)
            result = await run.result()
            assert (result.status, result.answer) == ("completed", "Order 7 is refunded.")
            assert [entry.outcome for entry in result.audit.closed] == ["approved"]
