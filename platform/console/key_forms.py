"""Forms about API keys: what a new one may do, and how one is rotated."""

from __future__ import annotations

from typing import Any

from django import forms
from django.conf import settings
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from unfold.widgets import (
    UnfoldAdminCheckboxSelectMultipleWidget,
    UnfoldAdminIntegerFieldWidget,
    UnfoldAdminTextareaWidget,
)

from console.pages import ScopedForm
from inference.models import Route
from kernel.networks import as_network
from tenants import key_scopes
from tenants.models import KeyScopeChoice
from tenants.services.keys import LONGEST_OVERLAP, MOST_NETWORKS, KeyRights

SCOPES = KeyScopeChoice.choices
LONGEST_OVERLAP_H = int(LONGEST_OVERLAP.total_seconds() // 3600)


def model_choices() -> list[tuple[str, str]]:
    """The models that tenants see offered anyway."""
    return [(name, name) for name in Route.objects.values_list("name", flat=True)]


class NewKeyForm(ScopedForm):
    """The tenant follows from the service account."""

    scopes = forms.MultipleChoiceField(
        label=_("May be used for"),
        choices=SCOPES,
        initial=sorted(key_scopes.DEFAULT),
        widget=UnfoldAdminCheckboxSelectMultipleWidget,
    )
    model_names = forms.MultipleChoiceField(
        label=_("Models"),
        choices=model_choices,
        required=False,
        widget=UnfoldAdminCheckboxSelectMultipleWidget,
        help_text=_("None chosen: all, and those to come."),
    )
    networks = forms.CharField(
        label=_("Networks"),
        required=False,
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 3}),
        help_text=_("Where it may be used from, one to a line, as 192.0.2.0/24. Empty: anywhere."),
    )

    def clean_expires_at(self) -> Any:
        expires_at = self.cleaned_data["expires_at"]
        if expires_at is not None and expires_at <= timezone.now():
            raise forms.ValidationError(_("The expiry must be in the future."))
        return expires_at

    def clean_networks(self) -> list[str]:
        words = self.cleaned_data["networks"].replace(",", " ").split()
        if len(words) > MOST_NETWORKS:
            raise forms.ValidationError(_("A key has at most 64 networks."))
        try:
            return [str(as_network(word)) for word in words]
        except ValueError as error:
            raise forms.ValidationError(
                _("This is no network: %(error)s."), params={"error": error}
            ) from error

    def rights(self) -> KeyRights:
        """What was asked for, once it is valid."""
        asked = self.cleaned_data
        return KeyRights(
            highest_priority=asked["highest_priority"],
            scopes=asked["scopes"],
            model_names=asked["model_names"],
            networks=asked["networks"],
        )


class RotateForm(forms.Form):
    overlap_h = forms.IntegerField(
        label=_("Hours that the old key still works"),
        min_value=0,
        max_value=LONGEST_OVERLAP_H,
        initial=lambda: int(settings.KEY_OVERLAP_H),
        widget=UnfoldAdminIntegerFieldWidget,
        help_text=_("Time to put the new key in place. 0: the old one is refused at once."),
    )
