"""allauth's forms, with labels in our words and languages."""

from __future__ import annotations

from typing import Any

from allauth.account.forms import (
    AddEmailForm,
    ChangePasswordForm,
    LoginForm,
    ReauthenticateForm,
    ResetPasswordForm,
    ResetPasswordKeyForm,
    SetPasswordForm,
)
from allauth.mfa.base.forms import AuthenticateForm as MfaAuthenticateForm
from allauth.mfa.base.forms import ReauthenticateForm as MfaReauthenticateForm
from allauth.mfa.totp.forms import ActivateTOTPForm
from allauth.mfa.webauthn.forms import AddWebAuthnForm
from django.utils.translation import gettext_lazy as _

LABELS = {
    "code": _("Code"),
    "email": _("Email address"),
    "name": _("Name"),
    "oldpassword": _("Current password"),
    "password": _("Password"),
    "password1": _("New password"),
    "password2": _("New password, again"),
    "passwordless": _("Sign in with this key alone, without a password"),
}


class Labelled:
    """A label above each field, and nothing inside it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name, field in self.fields.items():  # type: ignore[attr-defined] # a form's
            field.label = LABELS.get(name, field.label)
            field.widget.attrs.pop("placeholder", None)
            if name in ("password", "passwordless"):
                field.help_text = ""


class SignInForm(LoginForm):  # type: ignore[misc] # allauth has no types
    def add_prefix(self, field_name: str) -> str:
        """`username` is what password managers, and scripts, know the field by."""
        return super().add_prefix("username" if field_name == "login" else field_name)  # type: ignore[no-any-return]


class PasswordChange(Labelled, ChangePasswordForm):  # type: ignore[misc]
    pass


class PasswordSet(Labelled, SetPasswordForm):  # type: ignore[misc]
    pass


class PasswordReset(Labelled, ResetPasswordForm):  # type: ignore[misc]
    pass


class PasswordResetKey(Labelled, ResetPasswordKeyForm):  # type: ignore[misc]
    pass


class Reauthenticate(Labelled, ReauthenticateForm):  # type: ignore[misc]
    pass


class EmailChange(Labelled, AddEmailForm):  # type: ignore[misc]
    pass


class Code(Labelled, MfaAuthenticateForm):  # type: ignore[misc]
    pass


class CodeAgain(Labelled, MfaReauthenticateForm):  # type: ignore[misc]
    pass


class AppActivation(Labelled, ActivateTOTPForm):  # type: ignore[misc]
    pass


class KeyAddition(Labelled, AddWebAuthnForm):  # type: ignore[misc]
    pass
