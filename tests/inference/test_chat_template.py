from __future__ import annotations

import json
from pathlib import Path

import pytest
import tokenizers
from tokenizers import models, pre_tokenizers

from inference.engine.chat_template import ChatTemplate, TemplateRefused
from inference.engine.tokenizer import FakePromptRenderer, ModelPromptRenderer

SMALL = (
    "{{ bos_token }}{% for message in messages %}"
    "<{{ message['role'] }}>{{ message['content'] }}</>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>"}


def said(text: str, role: str = "user") -> list[dict[str, str]]:
    return [{"role": role, "content": text}]


def test_messages_become_the_prompt_up_to_the_answer() -> None:
    template = ChatTemplate(SMALL, SPECIAL)
    messages = [*said("be brief", "system"), *said("hi")]
    assert template.render(messages) == "<s><system>be brief</><user>hi</><assistant>"


@pytest.mark.parametrize(
    "text", ["{{ 7 * 7 }}", "{% for x in y %}", "{{ bos_token }}", "{# #}", "<b>&amp;", "çay\n"]
)
def test_a_message_is_data_and_never_a_template(text: str) -> None:
    assert ChatTemplate(SMALL, {}).render(said(text)) == f"<user>{text}</><assistant>"


@pytest.mark.parametrize(
    "source",
    [
        "{{ messages.__class__.__mro__ }}",
        "{{ ''.__class__.__base__.__subclasses__() }}",
        "{{ strftime_now.__globals__['json'] }}",
        "{{ raise_exception.__code__.co_consts }}",
        "{{ ''['__class__'].__name__ }}",
        "{{ (''|attr('__class__')).__name__ }}",
        "{% if messages.append({}) %}{% endif %}",
        "{{ messages[0].update({'role': 'x'}) }}",
    ],
)
def test_a_template_reaches_and_changes_nothing_outside_itself(source: str) -> None:
    messages = said("hi")
    with pytest.raises(TemplateRefused):
        ChatTemplate(source, {}).render(messages)
    assert messages == said("hi")


@pytest.mark.parametrize(
    "name", ["messages.__class__", "strftime_now.__globals__", "raise_exception.__code__"]
)
def test_what_a_template_must_not_see_is_not_there(name: str) -> None:
    source = f"{{{{ {name} is defined }}}}{{{{ {name} }}}}"
    assert ChatTemplate(source, {}).render(said("hi")) == "False"


def test_a_template_may_refuse_with_a_sentence() -> None:
    source = (
        "{% if messages[0].role != 'user' %}{{ raise_exception('The user is first.') }}{% endif %}"
    )
    with pytest.raises(TemplateRefused, match=r"The user is first\."):
        ChatTemplate(source, {}).render(said("hi", "assistant"))


@pytest.mark.parametrize(
    "source", ["{{ 1 + 'a' }}", "{{ 1 / 0 }}", "{{ messages[0]['content'](1) }}"]
)
def test_a_templates_own_mistakes_are_refusals(source: str) -> None:
    with pytest.raises(TemplateRefused):
        ChatTemplate(source, {}).render([{"role": "user", "content": "hi"}])


def test_what_hugging_faces_templates_rely_on() -> None:
    source = "{% for m in messages %}{% if loop.first %}{% continue %}{% endif %}{% endfor %}"
    source += "{{ messages[0]|tojson }}{{ strftime_now('%Y')|length }}"
    rendered = ChatTemplate(source, {}).render(said("<çay>"))
    assert rendered == '{"role": "user", "content": "<çay>"}4'


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model's folder with a tokenizer of a few words."""
    words = {word: number for number, word in enumerate(["?", "<s>", "user", "hi", "assistant"])}
    tokenizer = tokenizers.Tokenizer(models.WordLevel(words, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.add_special_tokens(["<s>"])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    config = {
        "chat_template": "{{ bos_token }}"
        "{% for m in messages %}{{ m.role }} {{ m.content }} {% endfor %}assistant",
        "bos_token": {"content": "<s>", "special": True},
        "add_bos_token": True,
    }
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    return tmp_path


def test_a_models_own_files_render_its_prompts(model: Path) -> None:
    assert ModelPromptRenderer(model).render(said("hi you")) == [1, 2, 3, 0, 4]


def test_a_template_file_goes_before_the_configuration(model: Path) -> None:
    (model / "chat_template.jinja").write_text("{{ messages[0].content }}")
    assert ModelPromptRenderer(model).render(said("hi")) == [3]


def test_a_folder_that_holds_no_model_is_told(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        ModelPromptRenderer(tmp_path)


def test_the_fake_counts_words_and_marks() -> None:
    render = FakePromptRenderer().render
    assert len(render(said("Merhaba, dünya!"))) == 5
    assert render(said("hi")) == render(said("hi"))
    assert render(said("hi")) != render(said("ho"))
    assert render(said("\u0000 \u2028")) != []
