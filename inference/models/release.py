from __future__ import annotations

from functools import partial

from django.core.validators import MinValueValidator
from django.db import models
from django.utils.translation import gettext_lazy as _

from kernel.ids import MAX_LENGTH, new_id


class EngineKind(models.TextChoices):
    VLLM = "vllm", "vLLM"
    FAKE = "fake", _("Deterministic fake")


class Release(models.Model):
    """Weights, engine arguments and chat template that are served together.

    model_path: folder of the weights and tokenizer, relative to the model store; empty for the fake
        engine
    engine_arguments: extra arguments for the engine, by its own names
    context_tokens: prompt and answer together, in tokens
    """

    id = models.CharField(
        primary_key=True, max_length=MAX_LENGTH, default=partial(new_id, "rel"), editable=False
    )
    name = models.SlugField(_("name"), unique=True, max_length=100)
    engine = models.CharField(_("engine"), max_length=16, choices=EngineKind.choices)
    model_path = models.CharField(_("model folder"), max_length=255, blank=True)
    engine_arguments = models.JSONField(_("engine arguments"), default=dict, blank=True)
    context_tokens = models.PositiveIntegerField(
        _("context (tokens)"), validators=[MinValueValidator(16)]
    )
    created_at = models.DateTimeField(_("created"), auto_now_add=True)

    class Meta:
        verbose_name = _("release")
        verbose_name_plural = _("releases")

    def __str__(self) -> str:
        return self.name
