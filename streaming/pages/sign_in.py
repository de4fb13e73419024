"""Signing in with a user name and a password."""

from __future__ import annotations

from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LoginView
from django.utils.translation import gettext_lazy as _


class SignInForm(AuthenticationForm):
    error_messages = {
        # The same for an unknown name, a wrong password and an inactive account.
        "invalid_login": _("The user name or the password is not right. Check both and try again."),
        "inactive": _("The user name or the password is not right. Check both and try again."),
    }


class SignIn(LoginView):
    form_class = SignInForm
    template_name = "pages/login.html"
    redirect_authenticated_user = True
