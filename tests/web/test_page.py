"""From a link to counted uploads, in real browsers, with nginx and three parties, and what goes wrong."""

import json
import tarfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from fairshares.harness.inputs.record_schema import domain_from_json
from fairshares.harness.uploads.page import page_files
from fairshares.harness.uploads.task import ANYONE, Task
from tests.support.browsers import BROWSERS, Browser, browsing
from tests.support.envelopes import counts, made_task, revealed
from tests.support.page_sites import PageSite, serving_page
from tests.support.running import until
from tests.support.web_client import WEB, built_page

LINKS = 60
AXE = WEB / "node_modules" / "axe-core" / "axe.min.js"
KEPT = """new Promise((resolve) => {
    const opening = indexedDB.open("fairshares", 1);
    opening.onupgradeneeded = () => opening.result.createObjectStore("submissions", { keyPath: "identity" });
    opening.onsuccess = () => {
        const asked = opening.result.transaction("submissions").objectStore("submissions").getAll();
        asked.onsuccess = () => { opening.result.close(); resolve(asked.result); };
    };
})"""
FORGET = """new Promise((resolve) => {
    const asked = indexedDB.deleteDatabase("fairshares");
    asked.onsuccess = asked.onerror = asked.onblocked = () => resolve(true);
})"""
CLOCK = """() => {
    const usual = Date;
    Date = class extends usual {
        constructor(...given) { super(...(given.length > 0 ? given : ["2100-01-01"])); }
    };
}"""
AT_ONCE = "() => { const usual = setTimeout; window.setTimeout = (does) => usual(does, 0); }"  # tries again
TOLD = "/open in another tab|This link was used/.test(document.body.innerText)"
DONE = "document.querySelector('#done') !== null"
AGAIN = "document.querySelector('#again') !== null"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_page(tmp_path_factory.mktemp("built"))


@pytest.fixture(scope="module")
def page(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageSite]:
    """A page whose links are used by one test each."""
    with serving_page(tmp_path_factory.mktemp("page"), built, links=LINKS) as site:
        yield site


@pytest.fixture(scope="module", params=BROWSERS)
def running(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browsing(request.param, tmp_path_factory.mktemp("browser")) as browser:
        yield browser


@pytest.fixture
def browser(running: Browser, page: PageSite) -> Browser:
    """A browser in which nobody has taken part."""
    running.open(page.site.address)
    running.evaluate(FORGET)
    running.resize(1280)
    return running


@pytest.fixture(scope="module")
def numbers() -> Iterator[int]:
    return iter(count(1))


@pytest.fixture
def link(page: PageSite, numbers: Iterator[int]) -> str:
    """A link that nobody has used."""
    return page.link(next(numbers))


def answer(browser: Browser, address: str, group: str = "b", label: str = "0") -> None:
    """Open a page, answer, and look at what will be sent."""
    browser.open(address)
    fill_in(browser, group, label)


def fill_in(browser: Browser, group: str = "b", label: str = "0") -> None:
    browser.click(f"input[name=group][value='{group}']")
    browser.click(f"input[name=label][value='{label}']")
    browser.click_text("Show what will be sent")
    browser.wait_for_text("This will be sent")


def files(page: PageSite) -> list[int]:
    return [len(page.stored(party)) for party in range(3)]


def test_a_persons_way_from_link_to_counted_upload(browser: Browser, page: PageSite, link: str) -> None:
    """A triple click sends once, no answer is kept, and the receipt is what the parties count."""
    before, (uploads, row) = files(page), page.sums()
    answer(browser, link)
    assert files(page) == before, "nothing is sent before it was shown"
    browser.evaluate("[1, 2, 3].forEach(() => document.querySelector('#send').click())")
    browser.wait_for(DONE)
    receipt = browser.evaluate("document.querySelector('#receipt').textContent")
    assert browser.evaluate("document.querySelectorAll('input').length") == 0
    kept = browser.evaluate(KEPT)
    assert [(submission["identity"], submission["envelopes"]) for submission in kept] == [(receipt, [])]
    assert files(page) == [number + 1 for number in before]
    row[2] += 1
    assert page.sums() == (uploads + 1, row)
    assert receipt in page.identities()
    browser.evaluate("history.back()")
    browser.wait_for("location.href === 'about:blank'")
    browser.evaluate("history.forward()")
    browser.wait_for(
        "document.querySelector('#done, button.other') !== null && location.href !== 'about:blank'"
    )
    assert browser.evaluate("document.querySelectorAll('input').length") == 0, "the form does not come back"
    browser.open(link)
    browser.wait_for_text("This link was used with this browser")
    browser.click_text("Show the receipt")
    browser.wait_for_text(receipt)
    browser.click("#forget")
    browser.wait_for_text("This device has forgotten it.")
    assert browser.evaluate(KEPT) == []


def test_a_server_that_is_down_and_a_reload(browser: Browser, page: PageSite, link: str) -> None:
    """What is unknown stays so over a reload, and is sent again with the same bytes."""
    before = files(page)
    with page.without(2), browser.before_each_page(AT_ONCE):
        answer(browser, link)
        browser.click("#send")
        browser.wait_for(AGAIN)
        said = browser.evaluate("[...document.querySelectorAll('.state')].map((state) => state.textContent)")
        assert said == ["stored", "stored", "unknown"]
        browser.wait_for_text("the same packages go out")
    assert files(page) == [before[0] + 1, before[1] + 1, before[2]]
    (kept,) = browser.evaluate(KEPT)
    assert kept["states"] == ["stored", "stored", "unknown"] and len(kept["envelopes"]) == 3
    browser.open(link)
    browser.wait_for_text("Go on sending")
    assert browser.evaluate("document.querySelectorAll('input').length") == 0, "no form after unknown"
    browser.click_text("Go on sending")
    browser.wait_for(DONE)
    assert files(page) == [number + 1 for number in before]
    assert kept["identity"] in page.identities()


def test_tabs_do_not_send_at_the_same_time(browser: Browser, page: PageSite, link: str) -> None:
    before = files(page)
    answer(browser, link)
    browser.evaluate(
        "void navigator.locks.request('fairshares', () => new Promise(() => undefined))"
    )  # another tab
    browser.click("#send")
    browser.wait_for_text("This page is open in another tab")
    assert files(page) == before and browser.evaluate(KEPT) == []


def test_two_tabs_seal_one_answer(browser: Browser, page: PageSite, link: str) -> None:
    """Both send at the same moment: one does, and the other one is told, whichever it is."""
    before, uploads = files(page), page.sums()[0]
    with browser.another_tab() as other:
        for tab in (browser, other):
            answer(tab, link)
        at = 1000 * time.time() + 500
        for tab in (browser, other):
            tab.evaluate(f"void setTimeout(() => document.querySelector('#send').click(), {at} - Date.now())")
        ends = [tab.wait_for(f"{DONE} ? 'done' : {TOLD} ? 'told' : ''") for tab in (browser, other)]
        assert sorted(ends) == ["done", "told"]
        assert len(browser.evaluate(KEPT)) == 1
        other.open(link)
        other.wait_for_text("This link was used with this browser")
    assert files(page) == [number + 1 for number in before] and page.sums()[0] == uploads + 1


def test_a_tab_goes_on_by_what_another_one_has_stored_or_forgotten(
    browser: Browser, page: PageSite, link: str
) -> None:
    before = files(page)
    with browser.another_tab() as late, browser.another_tab() as later:
        with page.without(2), browser.before_each_page(AT_ONCE):
            for tab in (browser, later):  # the latter has its answer, and shows what it would send
                answer(tab, link)
            browser.click("#send")
            browser.wait_for(AGAIN)
        late.open(link)
        late.wait_for_text("Go on sending")
        browser.click("#again")
        browser.wait_for(DONE)
        late.click_text("Go on sending")
        late.wait_for(f"{DONE} || {AGAIN}")
        (kept,) = browser.evaluate(KEPT)
        assert (kept["states"], kept["envelopes"]) == (["stored"] * 3, [])
        later.click("#send")
        later.wait_for(f"{TOLD} || {DONE} || {AGAIN}")
        assert "This link was used with this browser" in later.text() and len(browser.evaluate(KEPT)) == 1
        assert later.evaluate("document.querySelectorAll('input').length") == 0
    assert files(page) == [number + 1 for number in before]


def test_a_reload_while_packages_are_on_their_way(browser: Browser, page: PageSite, link: str) -> None:
    before, (uploads, _) = files(page), page.sums()
    answer(browser, link)
    browser.evaluate("window.fetch = () => new Promise(() => undefined)")
    browser.click("#send")
    browser.wait_for(f"{KEPT}.then((kept) => kept[0]?.states.every((state) => state === 'sending'))")
    browser.open(link)
    browser.wait_for_text("Go on sending")
    browser.click_text("Go on sending")
    browser.wait_for(DONE)
    assert files(page) == [number + 1 for number in before] and page.sums()[0] == uploads + 1


def test_another_person_at_the_same_browser_is_asked(browser: Browser, page: PageSite, link: str) -> None:
    answer(browser, link)
    browser.click("#send")
    browser.wait_for(DONE)
    before = page.sums()[0]
    browser.open(page.link(LINKS - BROWSERS.index(name_of(browser))))
    browser.wait_for_text("Was it you? Then you are done")
    assert browser.evaluate("document.querySelectorAll('input').length") == 0
    browser.click("#another")
    fill_in(browser)
    browser.click("#send")
    browser.wait_for(DONE)
    assert page.sums()[0] == before + 1


def name_of(browser: Browser) -> str:
    return BROWSERS[0] if type(browser).__name__ == "Chromium" else BROWSERS[1]


def test_a_link_works_once_and_until_it_is_revoked(
    browser: Browser, page: PageSite, link: str, numbers: Iterator[int]
) -> None:
    answer(browser, link)
    browser.click("#send")
    browser.wait_for(DONE)
    before, sums = files(page), page.sums()
    browser.evaluate(FORGET)  # as on another device
    answer(browser, link, group="a")
    browser.click("#send")
    browser.wait_for(AGAIN)
    browser.wait_for_text("something was stored under this link before")
    number = next(numbers)
    page.revoke(number)
    browser.evaluate(FORGET)
    answer(browser, page.link(number))
    browser.click("#send")
    browser.wait_for(AGAIN)
    browser.wait_for_text("it may have been withdrawn")
    assert (files(page), page.sums()) == (before, sums)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda link: link[:-1], "Your link is incomplete"),
        (lambda link: link.partition("#")[0] + "#task=" + "0" * 16 + "&invitation=x", "for another task"),
        (lambda link: link.partition("#")[0], "you need a link of your own"),
    ],
)
def test_links_that_are_none(browser: Browser, link: str, change: Any, says: str) -> None:
    browser.open(change(link))
    browser.wait_for_text(says)
    assert browser.evaluate("document.querySelectorAll('input').length") == 0


def from_disk(task: Task, built: Path, place: Path) -> str:
    """Write a page, and return its address as a file."""
    for name, content in page_files(task, {}, built).items():
        (place / name).write_bytes(content)
    return f"file://{place}/from-file.html"


def test_pages_that_cannot_be_used_say_so_in_one_sentence(
    browser: Browser, page: PageSite, built: Path, tmp_path: Path, link: str
) -> None:
    task = page.task
    party = task.parties[0]
    old = replace(party, keys=[replace(party.keys[0], until="2020-01-01")])
    text = task.text.decode()
    for number, (changed, says) in enumerate(
        [
            (replace(task, until="2020-01-01"), "The last day to take part was 2020-01-01"),
            (replace(task, parties=[old, *task.parties[1:]]), "a key of an organization has expired"),
            (text.replace('"schema":1', '"schema":2'), "it has schema 2"),
            (text.replace('"security":"ring",', '"security":"ring","shares":1,'), "unknown key 'shares'"),
            (text.replace("9999-12-31", "9999-12-30", 1), ""),
        ]
    ):
        place = tmp_path / str(number)
        place.mkdir()
        address = from_disk(changed if isinstance(changed, Task) else task, built, place)
        if isinstance(changed, str):
            html = (place / "from-file.html").read_text()
            quoted = text.replace('"', "&quot;")
            assert quoted in html
            (place / "from-file.html").write_text(html.replace(quoted, changed.replace('"', "&quot;")))
        browser.open(f"{address}#{link.partition('#')[2]}")
        browser.wait_for_text(says or "Your link is for another task")
        assert browser.evaluate("document.querySelectorAll('#error').length") == 1
        assert browser.evaluate("document.querySelectorAll('input').length") == 0
    for script, says in (
        ("() => Object.defineProperty(Crypto.prototype, 'subtle', { value: undefined })", "cannot seal"),
        ("() => { indexedDB.open = () => { throw new Error('no'); }; }", "does not let pages keep anything"),
    ):
        with browser.before_each_page(script):
            browser.open(link)
            browser.wait_for_text(says)
    ends = from_disk(replace(task, until="2099-12-31"), built, tmp_path)
    browser.open(ends)
    browser.wait_for_text("you need a link of your own")
    with browser.before_each_page(CLOCK):
        browser.open(ends)
        browser.wait_for_text("was 2099-12-31, and this device says that today is 2100-01-01")


def test_a_page_from_disk_seals_and_lets_one_save(
    browser: Browser, page: PageSite, built: Path, tmp_path: Path, link: str
) -> None:
    before = files(page)
    address = from_disk(page.task, built, tmp_path)
    browser.open(f"{address}#{link.partition('#')[2]}")
    browser.wait_for_text("This page was opened from a file")
    fill_in(browser)
    browser.click_text("Seal, and save the packages")
    browser.wait_for_text("Your answer is sealed")
    assert saved_row(browser, page.task, page.place, tmp_path / "sent") == [0, 0, 1, 0]
    assert files(page) == before and f'--to "{address}#' in browser.text()


def is_whole(file: Path) -> bool:
    """Return whether an archive has arrived to its end, which is two blocks of zeros."""
    return file.stat().st_size > 1024 and file.read_bytes().endswith(bytes(1024))


def saved_row(browser: Browser, task: Task, keys: Path, place: Path) -> list[int]:
    """Save the packages, unpack them, and return what all parties' shares add up to."""
    name = browser.wait_for("/packages-[0-9a-f]{16}\\.tar/.exec(document.body.innerText)[0]")
    browser.click("#save")
    until(lambda: (browser.downloads / name).exists() and is_whole(browser.downloads / name))
    with tarfile.open(browser.downloads / name) as archive:
        archive.extractall(place, filter="data")
    count = counts(task, keys, shares=place)
    assert [len(party.identities) for party in count] == [1, 1, 1]
    return revealed(task, [party.values for party in count])


KINDS: dict[str, tuple[dict[str, Any], dict[str, str], list[int]]] = {
    "score": ({"labels": ["0", "1"], "thresholds": 3}, {"label": "1", "score-0": "0.5"}, [0] * 10 + [1, 0]),
    "scores": (
        {"labels": ["0", "1", "2"], "thresholds": 2},
        {"label": "1", "score-0": "0", "score-1": "1", "score-2": "1e0"},
        [0, 0, 0, 0, 1, 0, 0, 0, *[0] * 6, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0],
    ),
    "prediction": (
        {"labels": ["0", "1"], "predictions": True},
        {"label": "0", "prediction": "1"},
        [0] * 5 + [1, 0, 0],
    ),
    "value": ({"values": {"low": 0, "high": 1, "steps": 4}}, {"value": "3/4"}, [0, 0, 6, 2]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_answer_is_asked_for(kind: str, running: Browser, built: Path, tmp_path: Path) -> None:
    fields, answers, row = KINDS[kind]
    domain = domain_from_json({"groups": ["a", "b"], "max_count": 1, **fields}, "the test")
    task = made_task(tmp_path / "task", domain=domain)
    running.open(from_disk(task, built, tmp_path))
    running.click_text("Show what will be sent")
    running.wait_for_text("Choose one of the answers")
    running.click("input[name=group][value=b]")
    for name, text in answers.items():
        if name in ("label", "prediction"):
            running.click(f"input[name={name}][value='{text}']")
            continue
        for typed, says in (("61", "needs a number from 0 to 1"), (text, "")):
            running.evaluate(
                f"(() => {{ const field = document.querySelector('#{name}'); field.value = '{typed}';"
                " field.dispatchEvent(new Event('input')); })()"
            )
            if says:
                running.click_text("Show what will be sent")
                running.wait_for_text(says)
    running.click_text("Show what will be sent")
    running.click_text("Seal, and save the packages")
    running.wait_for_text("Your answer is sealed")
    assert saved_row(running, task, tmp_path / "task", tmp_path / "sent") == row


def tab_to(browser: Browser, expression: str) -> None:
    """Press the tab key until an expression of the page is true."""
    for _ in range(40):
        browser.press("Tab")
        if browser.evaluate(expression):
            return
    pytest.fail(f"no tab leads to {expression}")


def test_a_keyboard_is_enough(browser: Browser, page: PageSite, link: str) -> None:
    before = page.sums()[0]
    browser.open(link)
    browser.wait_for("document.querySelector('#group') !== null")
    tab_to(browser, "document.activeElement.tagName === 'SUMMARY'")
    browser.press("Enter")
    assert browser.evaluate("document.activeElement.parentElement.open")
    for field in ("group", "label"):
        tab_to(browser, f"document.activeElement.name === '{field}'")
        browser.press(" ")
    tab_to(browser, "document.activeElement.textContent === 'Show what will be sent'")
    browser.press("Enter")
    browser.wait_for_text("This will be sent")
    assert browser.evaluate("document.activeElement.tagName") == "H2"
    tab_to(browser, "document.activeElement.id === 'send'")
    browser.press("Enter")
    browser.wait_for(DONE)
    assert page.sums()[0] == before + 1


def test_a_keyboard_is_enough_for_an_organization(browser: Browser, page: PageSite, link: str) -> None:
    _, row = page.sums()
    browser.open(link)
    browser.wait_for("document.querySelector('#who-person') !== null")
    tab_to(browser, "document.activeElement.name === 'who'")
    browser.press("ArrowDown")
    browser.wait_for("document.activeElement.id === 'who-organization'")
    tab_to(browser, "document.activeElement.id === 'table-text'")
    for line in ("group,label", "a,1", "a,1", "b,0"):
        browser.type(line)
        browser.press("Enter")
    browser.wait_for_text("3 of 3 rows will be counted.")
    browser.press("Tab")
    browser.wait_for("document.activeElement.id === 'column-group'")
    tab_to(browser, "document.activeElement.textContent === 'Show what will be sent'")
    browser.press("Enter")
    browser.wait_for_text("This will be sent")
    tab_to(browser, "document.activeElement.id === 'send'")
    browser.press("Enter")
    browser.wait_for(DONE)
    assert page.sums()[1] == [row[0], row[1] + 2, row[2] + 1, row[3]]


def violations(browser: Browser) -> list[str]:
    browser.evaluate(f"(() => {{ {AXE.read_text()}; }})()")
    found: list[str] = browser.evaluate(
        "axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21aa', 'wcag22aa', 'best-practice'] })"
        ".then((found) => found.violations.map((v) => v.id + ' ' + v.nodes.map((n) => n.html).join(' ')))"
    )
    return found


def check_readable(browser: Browser) -> None:
    """Check that axe finds nothing in a view, at 1,280 pixels and at 320, which is 400 % of that."""
    assert violations(browser) == []
    browser.resize(320, 256)
    assert browser.evaluate("document.scrollingElement.scrollWidth") <= 320
    assert violations(browser) == []
    browser.resize(1280)


def check_each_view(browser: Browser, page: PageSite, link: str) -> None:
    """Go the whole way by a link, and check each view."""
    browser.open(link)
    browser.wait_for_text("What happens")
    browser.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
    check_readable(browser)
    browser.click_text("Show what will be sent")  # before anything was chosen
    browser.wait_for("document.querySelector('#fault') !== null")
    assert browser.evaluate("document.activeElement.name") == "group"
    check_readable(browser)
    browser.click("#who-organization")
    paste(browser, "group,label\na,0\nb,1\nc,1\n")
    check_readable(browser)
    browser.click("#who-person")
    fill_in(browser)
    check_readable(browser)
    with page.without(2), browser.before_each_page(AT_ONCE):
        answer(browser, link)
        browser.click("#send")
        browser.wait_for(AGAIN)
        check_readable(browser)
        browser.click("#forget")  # asks once more
        browser.wait_for_text("Delete these packages.")
        check_readable(browser)
        browser.click_text("Cancel")
    browser.open(link)
    browser.wait_for_text("Go on sending")
    check_readable(browser)
    browser.click_text("Go on sending")
    browser.wait_for(DONE)
    check_readable(browser)
    browser.open(link[:-1])
    browser.wait_for_text("Your link is incomplete")
    check_readable(browser)


QUESTION = "Which group do you belong to?"
FORM = [
    ("heading", "Take part"),
    ("navigation", "Language"),
    ("heading", "Your answer"),
    ("radiogroup", "Who takes part?"),
    ("radiogroup", QUESTION),
    ("radio", "b"),
    ("button", "Show what will be sent"),
    ("status", None),
]
PREVIEW = [("heading", "This will be sent"), ("button", "Seal and send"), ("button", "Change the answer")]
HALF_SENT = [
    ("heading", "Sending"),
    ("table", "Sending"),
    ("columnheader", "Your package is"),
    ("rowheader", "party 2"),
    ("button", "Send again"),
]
SENT = [("heading", "Thank you: everything is stored"), ("heading", "Your receipt"), ("status", None)]


def check_read_aloud(browser: Browser, parts: Sequence[tuple[str, str | None]]) -> None:
    """Check that a reader of screens finds these parts, by the browser's own tree of accessible objects."""
    for role, name in parts:
        assert browser.read_aloud(role, name) > 0, (role, name)


def test_a_reader_of_screens_is_told_what_there_is_and_what_changes(
    browser: Browser, page: PageSite, link: str
) -> None:
    """No such reader runs here. It says what browsers tell it: roles, names, the focus and live regions."""
    browser.open(link)
    browser.wait_for_text("What happens")
    check_read_aloud(browser, FORM)
    browser.evaluate("void (window.first = document.querySelector('#heard'))")
    browser.click_text("Show what will be sent")
    browser.wait_for("document.querySelector('#fault') !== null")
    check_read_aloud(browser, [("alert", None), ("radiogroup", QUESTION)])
    group = "document.querySelector('#group')"
    assert browser.evaluate(f"{group}.getAttribute('aria-describedby').split(' ')[0]") == "fault"
    assert browser.evaluate(f"{group}.getAttribute('aria-invalid')") == "true"
    assert browser.evaluate(f"{group}.contains(document.activeElement)")
    browser.click("#who-organization")
    paste(browser, "group,label\na,0\nb,1\n")
    browser.wait_for(
        "window.first.textContent === '2 of 2 rows will be counted.'"
    )  # the same region as before
    browser.click("#who-person")
    browser.wait_for("window.first.textContent === '' && window.first.isConnected")
    fill_in(browser)
    check_read_aloud(browser, PREVIEW)
    assert browser.evaluate("document.activeElement.textContent") == "This will be sent"
    with page.without(2), browser.before_each_page(AT_ONCE):
        answer(browser, link)
        browser.click("#send")
        browser.wait_for(AGAIN)
        check_read_aloud(browser, HALF_SENT)
    browser.click("#again")
    browser.wait_for(DONE)
    check_read_aloud(browser, SENT)
    assert browser.evaluate("document.activeElement.textContent") == "Thank you: everything is stored"


def test_everybody_can_read_it(browser: Browser, page: PageSite, link: str) -> None:
    check_each_view(browser, page, link)


@pytest.mark.parametrize("name", BROWSERS)
def test_everybody_can_read_it_in_the_dark(
    name: str, page: PageSite, numbers: Iterator[int], tmp_path: Path
) -> None:
    with browsing(name, tmp_path, dark=True) as browser:
        browser.resize(1280)
        assert browser.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
        check_each_view(browser, page, page.link(next(numbers)))


def paste(browser: Browser, text: str) -> None:
    browser.wait_for("document.querySelector('#table-text') !== null")
    browser.evaluate(
        f"(() => {{ const field = document.querySelector('#table-text'); field.value = {json.dumps(text)};"
        " ['input', 'change'].forEach((name) => field.dispatchEvent(new Event(name))); })()"
    )


def test_an_organization_sends_its_counts(browser: Browser, page: PageSite, link: str) -> None:
    _, row = page.sums()
    browser.open(link)
    browser.click("#who-organization")
    paste(browser, "sex\toutcome\nb\t1\nb\t1\na\t0\n a\t0\n\t1\nb\tnan\n")
    browser.wait_for_text("Choose a column for each.")
    for name, column in (("group", "sex"), ("label", "outcome")):
        browser.evaluate(
            f"(() => {{ const field = document.querySelector('#column-{name}'); field.value = '{column}';"
            " field.dispatchEvent(new Event('change')); })()"
        )
    browser.wait_for_text("3 of 6 rows will be counted.")
    said = browser.text()
    assert "“ a” is none of the names of this task; only blanks" in said and "row 5" in said
    assert "The column sex is empty." in said and "The column outcome is empty." in said
    browser.click_text("Show what will be sent")
    browser.wait_for_text("This will be sent")
    browser.click("#send")
    browser.wait_for(DONE)
    assert page.sums()[1] == [row[0] + 1, row[1], row[2], row[3] + 2]
    browser.evaluate(FORGET)
    browser.open(link)
    browser.click("#who-organization")
    for content, says in (
        ("'group;label\\na;1\\n'", "1 of 1 rows will be counted."),
        ("new Uint8Array([255])", "UTF-8"),
    ):
        browser.evaluate(
            "(() => { const chosen = new DataTransfer();"
            f" chosen.items.add(new File([{content}], 'my.csv'));"
            " const field = document.querySelector('#table-file');"
            " field.files = chosen.files; field.dispatchEvent(new Event('change')); })()"
        )
        browser.wait_for_text(says)


def test_an_open_page_in_another_language_says_that_anybody_can_take_part(
    built: Path, tmp_path: Path
) -> None:
    wording = tmp_path / "wording.json"
    words = {"title": "Umfrage", "group": "Wo wohnen Sie?", "groups": {"a": "Stadt", "b": "Land"}}
    wording.write_text(json.dumps({"de": words}))
    with (
        serving_page(tmp_path / "page", built, admission=ANYONE, wording=wording) as page,
        browsing("firefox-esr", tmp_path / "browser", languages="de-AT") as browser,
    ):
        browser.open(page.site.address)
        browser.wait_for_text("Was mit Ihrer Antwort geschieht")
        said = browser.text()
        assert "beliebig oft und mit erfundenen Antworten" in said
        assert "Wo wohnen Sie?" in said and "Stadt" in said and "Umfrage" in said
        assert browser.evaluate("document.documentElement.lang") == "de"
        browser.click("#who-organization")
        paste(browser, 'group,label\n"a,0\n')
        browser.wait_for_text("Die Tabelle hat ein Anführungszeichen, dem das schließende fehlt")
        paste(browser, "group,label\nA,0\n")
        browser.wait_for_text("In der Spalte group ist „A“ keiner der Namen dieser Aufgabe")
        assert violations(browser) == []
        browser.click("#language-en")
        browser.wait_for_text("Anybody who has the address of this page")
        browser.wait_for_text("In the column group, “A” is none of the names of this task")
        assert browser.evaluate("document.querySelector('#table-text').value") == "group,label\nA,0\n"
        browser.click("#who-person")
        fill_in(browser)
        browser.click("#send")
        browser.wait_for(DONE)
        assert page.sums() == (1, [0, 0, 1, 0])
        (tmp_path / "other").mkdir()
        address = from_disk(page.task, built, tmp_path / "other")
        html = (tmp_path / "other" / "from-file.html").read_text()
        (tmp_path / "other" / "from-file.html").write_text(
            html.replace("&quot;schema&quot;:1", "&quot;schema&quot;:2")
        )
        browser.open(address)
        browser.wait_for("document.querySelector('#error') !== null")
        assert "sie hat das Schema 2, und diese Version liest 1" in browser.text()
        assert browser.evaluate("document.querySelector('#error span') === null"), "nothing is in English"
