"""What-if questions on the page: the distribution of a node's death, its age, and when it cannot be asked."""

from __future__ import annotations

from playwright.sync_api import Locator, Page, expect

from tests.browser.page_server import PageServer
from tests.browser.test_page import button, region
from zabka.journal import events as e


def ask(page: Page, node: str) -> Locator:
    """Ask the question from the node's menu, and return the dialog."""
    button(page, f"More on {node}").click()
    button(page, f"What if {node} is killed").click()
    return page.get_by_role("dialog", name=f"What if {node} died now?")


def test_answer_grows_and_shows_when_the_state_was_read(page: Page, server: PageServer) -> None:
    shown = ask(page, "broker 2")
    expect(shown).to_contain_text("1 future so far")
    expect(shown).to_contain_text("Live state read at")
    expect(shown.get_by_role("button", name="Ask again")).to_be_disabled()

    server.follower.released.set()
    expect(shown).to_contain_text("4 futures in a simulated world, with producers that use acks=all")
    expect(shown).to_contain_text("1 of 4 (10 to 60 %)")
    expect(shown).to_contain_text("median 6.1 s, 90 % 6.4 s, longest 6.6 s")
    expect(shown).to_contain_text("no interruption")
    expect(shown.get_by_role("list", name="Partitions that wait for broker 2")).to_contain_text(
        "orders-0 is not writable until broker 2 returns, in 1 of 4"
    )
    shown.get_by_text("What the futures do not have").click()
    expect(shown).to_contain_text("Consumer groups, transactions and internal topics.")
    assert server.agent.asked == []

    shown.get_by_role("button", name="Ask with acks=1").click()
    expect(shown.get_by_role("button", name="Ask again")).to_be_enabled()
    assert [asked[6] for asked in server.follower.asked] == ["all", "1"]
    page.keyboard.press("Escape")
    expect(shown).to_have_count(0)


def test_old_answer_is_marked_as_old(page: Page, server: PageServer) -> None:
    page.clock.install()
    server.follower.released.set()
    shown = ask(page, "peer 1")
    page.clock.run_for(3_000)
    expect(shown).to_contain_text("4 futures")
    expect(shown).not_to_contain_text("the cluster may have changed since")
    page.clock.run_for(40_000)
    expect(shown).to_contain_text("the cluster may have changed since")


def test_refusal_of_the_api_is_shown(page: Page, server: PageServer) -> None:
    server.ensemble.stale = True
    shown = ask(page, "broker 3")
    expect(shown.get_by_role("alert")).to_contain_text("the ensemble has no quorum, so the state is out of date")
    expect(shown.get_by_role("button", name="Ask again")).to_be_enabled()


def test_dead_node_and_past_moment_have_no_question(page: Page, server: PageServer) -> None:
    button(page, "Kill broker 3").click()
    button(page, "More on broker 3").click()
    expect(button(page, "What if broker 3 is killed")).to_be_disabled()
    page.keyboard.press("Escape")
    server.append_events("broker-1", e.LeaderElected("orders", 0, 2, 5, [2, 1], [1, 2, 3], 7, 3, False, "test"))
    page.evaluate(f"location.hash = '#run=live&at={server.last_seq - 1}'")
    expect(region(page, "The cluster at this moment")).to_contain_text("Actions are off")
    button(page, "More on broker 1").click()
    expect(button(page, "What if broker 1 is killed")).to_be_disabled()
