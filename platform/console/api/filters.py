"""What lists are narrowed by, as strictly as bodies are read."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django import forms
from django_filters import CharFilter, TypedChoiceFilter
from rest_framework.exceptions import ValidationError

from console.api.fields import Moment


class _MomentField(forms.CharField):
    def clean(self, value: Any) -> datetime | None:
        text = super().clean(value)
        if not text:
            return None
        try:
            moment: datetime = Moment().run_validation(text)
        except ValidationError as error:
            raise forms.ValidationError("A moment as RFC 3339 writes it.") from error
        return moment


class MomentFilter(CharFilter):  # type: ignore[misc] # no types
    field_class = _MomentField


class FlagFilter(TypedChoiceFilter):  # type: ignore[misc] # no types
    def __init__(self, **kwargs: Any) -> None:
        choices = (("true", "true"), ("false", "false"))
        super().__init__(choices=choices, coerce=lambda text: text == "true", **kwargs)
