"""Naming a person in a form."""

from __future__ import annotations

from django import forms
from django.contrib.auth.models import User
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminTextInputWidget


class NamesPerson(forms.ModelForm):  # type: ignore[type-arg] # no generics at run time
    """Names the person by their exact username: nobody gets a list of strangers."""

    username = forms.CharField(
        label=_("Username"),
        help_text=_("Exactly as the person signs in."),
        max_length=150,
        widget=UnfoldAdminTextInputWidget(),
    )

    def clean_username(self) -> str:
        username: str = self.cleaned_data["username"]
        user = User.objects.filter(username=username, is_active=True).first()
        if user is None:
            raise forms.ValidationError(_("Nobody has this username."))
        self.instance.user = user
        return username

    def _get_validation_exclusions(self) -> set[str]:
        excluded: set[str] = super()._get_validation_exclusions()  # type: ignore[misc]
        return excluded - {"user"} if self.instance.user_id else excluded
