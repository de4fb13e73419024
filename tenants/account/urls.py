"""Addresses of signing in and of one's own account: those of allauth's that we have pages for.

`login` and `logout` are the names that the platform's pages use, `account_…`, `mfa_…` and
`usersessions_…` are allauth's.
"""

from __future__ import annotations

from allauth.account import views as account
from allauth.mfa.base import views as mfa
from allauth.mfa.recovery_codes import views as recovery_codes
from allauth.mfa.webauthn import views as webauthn
from django.contrib.auth.views import LogoutView
from django.urls import URLPattern, URLResolver, include, path, re_path
from django.views.generic import RedirectView

from tenants.account import factor_views as own_pages
from tenants.account.views import SignIn, sessions

login = SignIn.as_view()
logout = LogoutView.as_view()

passwords: list[URLPattern | URLResolver] = [
    path("change/", own_pages.ChangePassword.as_view(), name="account_change_password"),
    path("set/", own_pages.SetPassword.as_view(), name="account_set_password"),
    path("reset/", account.password_reset, name="account_reset_password"),
    path("reset/done/", account.password_reset_done, name="account_reset_password_done"),
    path(
        "reset/key/done/",
        account.password_reset_from_key_done,
        name="account_reset_password_from_key_done",
    ),
    re_path(
        r"^reset/key/(?P<uidb36>[0-9A-Za-z]+)-(?P<key>.+)/$",
        own_pages.ResetPassword.as_view(),
        name="account_reset_password_from_key",
    ),
]
factors: list[URLPattern | URLResolver] = [
    path("", own_pages.SecondFactor.as_view(), name="mfa_index"),
    path("authenticate/", mfa.authenticate, name="mfa_authenticate"),
    path("reauthenticate/", mfa.reauthenticate, name="mfa_reauthenticate"),
    path("totp/activate/", own_pages.AddApp.as_view(), name="mfa_activate_totp"),
    path("totp/deactivate/", own_pages.RemoveApp.as_view(), name="mfa_deactivate_totp"),
    path("recovery-codes/", recovery_codes.view_recovery_codes, name="mfa_view_recovery_codes"),
    path(
        "recovery-codes/generate/",
        own_pages.RenewRecoveryCodes.as_view(),
        name="mfa_generate_recovery_codes",
    ),
    path("keys/", RedirectView.as_view(pattern_name="mfa_index"), name="mfa_list_webauthn"),
    path("keys/add/", own_pages.AddKey.as_view(), name="mfa_add_webauthn"),
    path("keys/<int:pk>/remove/", own_pages.RemoveKey.as_view(), name="mfa_remove_webauthn"),
    path("keys/login/", webauthn.login_webauthn, name="mfa_login_webauthn"),
    path(
        "keys/reauthenticate/", webauthn.reauthenticate_webauthn, name="mfa_reauthenticate_webauthn"
    ),
]
own: list[URLPattern | URLResolver] = [
    # Nobody signs up; allauth's mail to an address without an account asks for the name.
    path("signup/", RedirectView.as_view(pattern_name="login"), name="account_signup"),
    path("sessions/", sessions, name="usersessions_list"),
    path("reauthenticate/", account.reauthenticate, name="account_reauthenticate"),
    path("email/", account.email, name="account_email"),
    path("email/confirm/", account.email_verification_sent, name="account_email_verification_sent"),
    re_path(
        r"^email/confirm/(?P<key>[-:\w]+)/$", account.confirm_email, name="account_confirm_email"
    ),
    path("password/", include(passwords)),
    path("second-factor/", include(factors)),
]

urlpatterns = [
    path("login/", login, name="account_login"),
    path("login/", login, name="login"),
    path("logout/", logout, name="account_logout"),
    path("logout/", logout, name="logout"),
    path("account/", include(own)),
]
