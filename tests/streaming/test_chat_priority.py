"""The chat is interactive, as far as its tenant may be."""

from __future__ import annotations

import pytest

from inference.pipeline.admission import Admission, Admitted
from inference.services import generations
from kernel.clock import Clock, SystemClock
from streaming.events import Send
from streaming.models import Conversation
from streaming.services import asking, conversations
from tenants.principal import Principal
from tenants.priority import PriorityClass
from tests.inference.making import START

# What it calls gets a thread whose connection an earlier test may have left open.
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("highest", ["interactive", "standard", "batch"])
async def test_a_question_is_of_the_highest_class_its_tenant_may_use(
    highest: PriorityClass, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Admission] = []

    async def admit(admission: Admission, clock: Clock) -> Admitted:
        seen.append(admission)
        return Admitted("ten_a", "gen_a", "rel_a", "fake", 3, START, 256, "hold")

    def history(**_: object) -> list[tuple[str, str]]:
        return [("user", "hi")]

    monkeypatch.setattr(generations, "admit", admit)
    monkeypatch.setattr(conversations, "history", history)
    person = Principal("ten_a", "user", "1", highest_priority=highest)
    send = Send(ref="r", model="fake", text="hi")
    await asking.ask(send, person, Conversation(id="cnv_a"), SystemClock())
    assert seen[0].priority == highest
