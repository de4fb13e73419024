"""Two people at the same form: the second one is told what changed, and nothing is lost.

A form carries what it was filled from. When it comes back, that is compared with the row as it is
by then, under a lock; if they differ nothing is saved, the form says what has become what, keeps
what was entered, and carries the row as it is now: saving again is then a decision.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from django import forms
from django.core.serializers.json import DjangoJSONEncoder
from django.db.models import Field, ForeignKey, Model
from django.utils.translation import gettext as _

from tenants.models import Tenant
from tenants.models.scoped import ScopedModel

# The form's field, and what holds the row's values while the request is answered.
FIELD = "seen_values"
ATTRIBUTE = "console_row_values"
# Of a value, in the sentence that tells what changed.
TOLD_CHARACTERS = 100

Values = dict[str, Any]


def lock(row: Model) -> None:
    """Until the transaction ends nobody else saves this row, or, of a tenant's rows, any of them:
    services take the tenant's lock first, too. Requests that refer to the row go on.
    """
    locked: Model = row if not isinstance(row, ScopedModel) else row.tenant
    model = Tenant if isinstance(locked, Tenant) else type(locked)
    rows = model._default_manager.select_for_update(no_key=True)  # noqa: SLF001 - Django's documented name
    rows.filter(pk=locked.pk).first()


def values_of(row: Model) -> Values:
    """What may be edited of a row, as JSON gives it back."""
    values = {
        field.name: field.value_from_object(row)
        for field in row._meta.concrete_fields  # noqa: SLF001 - Django's documented name
        if field.editable
    }
    plain: Values = json.loads(json.dumps(values, cls=DjangoJSONEncoder))
    return plain


def carried(values: Values, form: forms.BaseForm) -> str:
    """What a form carries: the values of the fields that can be edited in it, none of the others'.
    A password's digest is shown by a field that can't.
    """
    shown = {name for name, field in form.fields.items() if not field.disabled}
    return json.dumps({name: value for name, value in values.items() if name in shown})


class ChecksForChanges(forms.ModelForm):  # type: ignore[type-arg] # no generics at run time
    """values: of the row, as it was read for this request; what the form was filled from comes with
    it, unless it was no browser's.
    """

    values: Values

    def clean(self) -> Any:
        cleaned = super().clean()
        changes = list(_changes(self._meta.model, self._seen(), self.values))
        if changes:
            text = _(
                "Somebody else changed this while you were at it: %(changes)s. Nothing was saved, "
                "and what you entered is still here. Save again to put it in place of theirs."
            )
            self.add_error(None, text % {"changes": "; ".join(changes)})
        return cleaned

    def _seen(self) -> Values:
        try:
            seen = json.loads(self.data.get(FIELD, "{}"))
        except ValueError:
            return {}
        return seen if isinstance(seen, dict) else {}


def _changes(model: type[Model], seen: Mapping[str, Any], now: Values) -> Iterator[str]:
    for name, value in now.items():
        if name in seen and seen[name] != value:
            field = model._meta.get_field(name)  # noqa: SLF001 - Django's documented name
            label = str(getattr(field, "verbose_name", name))
            yield f"{label}: {_told(field, seen[name])} → {_told(field, value)}"


def _told(field: Any, value: Any) -> str:
    """A field's value for people."""
    if value is None or value == "":
        return "–"
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    if isinstance(field, ForeignKey):
        others = field.related_model._default_manager  # noqa: SLF001
        return str(others.filter(pk=value).first() or value)
    choices = dict(field.flatchoices) if isinstance(field, Field) else {}
    return str(choices.get(value, value))[:TOLD_CHARACTERS]
