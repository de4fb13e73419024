"""What django-allauth is told: settings of a library, derived from ours."""

from __future__ import annotations

from typing import Any

# Of addresses, for what costs us a mail or a look-up, whoever asks.
PER_ADDRESS = "60/m/ip"
FORMS = "tenants.account.forms"


def allauth(*, production: bool, tries_per_account: int, tries_per_address: int) -> dict[str, Any]:
    """tries_per_account: failed attempts at one account, or name, in five minutes, from anywhere
    tries_per_address: failed attempts of one client address in a minute, at whatever account
    """
    failing = f"{tries_per_address}/m/ip,{tries_per_account}/5m/key"
    return {
        "ACCOUNT_ADAPTER": "tenants.account.adapter.AccountAdapter",
        "ACCOUNT_FORMS": {
            "login": f"{FORMS}.SignInForm",
            "add_email": f"{FORMS}.EmailChange",
            "change_password": f"{FORMS}.PasswordChange",
            "set_password": f"{FORMS}.PasswordSet",
            "reset_password": f"{FORMS}.PasswordReset",
            "reset_password_from_key": f"{FORMS}.PasswordResetKey",
            "reauthenticate": f"{FORMS}.Reauthenticate",
        },
        "MFA_FORMS": {
            "authenticate": f"{FORMS}.Code",
            "reauthenticate": f"{FORMS}.CodeAgain",
            "activate_totp": f"{FORMS}.AppActivation",
            "add_webauthn": f"{FORMS}.KeyAddition",
        },
        # People sign in by user name; addresses may be shared, and are verified only if they like.
        "ACCOUNT_LOGIN_METHODS": {"username"},
        "ACCOUNT_SIGNUP_FIELDS": ["username*", "email", "password1*"],
        "ACCOUNT_EMAIL_VERIFICATION": "optional",
        # One address a person; another takes its place once it is verified.
        "ACCOUNT_CHANGE_EMAIL": True,
        "ACCOUNT_EMAIL_SUBJECT_PREFIX": "",
        "ACCOUNT_EMAIL_NOTIFICATIONS": True,
        "ACCOUNT_EMAIL_CONFIRMATION_ANONYMOUS_REDIRECT_URL": "/login/",
        "ACCOUNT_SESSION_REMEMBER": True,
        "ACCOUNT_DEFAULT_HTTP_PROTOCOL": "https" if production else "http",
        "ACCOUNT_REAUTHENTICATION_METHODS": {"password", "mfa"},
        "ACCOUNT_RATE_LIMITS": {
            "login": PER_ADDRESS,
            "login_failed": failing,
            "reset_password": "10/m/ip,3/10m/key",
            "reset_password_from_key": "20/m/ip",
            # Not allauth's: how many failures the audit log is told of one by one.
            "failure_recorded": "60/m/key",
        },
        "MFA_ADAPTER": "tenants.account.mfa_adapter.MfaAdapter",
        "MFA_SUPPORTED_TYPES": ["totp", "webauthn", "recovery_codes"],
        "MFA_PASSKEY_LOGIN_ENABLED": True,
        "MFA_ALLOW_UNVERIFIED_EMAIL": True,
        "MFA_RECOVERY_CODES_SHOW_ONCE": True,
        "MFA_TOTP_ISSUER": "Nehir",
        # Half a minute to either side, for clocks that are off.
        "MFA_TOTP_TOLERANCE": 1,
    }
