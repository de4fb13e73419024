"""allauth's pages that change how somebody signs in, each with its record in the transaction of
what it does.
"""

from __future__ import annotations

from typing import Any, cast

from allauth.account.views import PasswordChangeView, PasswordResetFromKeyView, PasswordSetView
from allauth.mfa.base.views import IndexView
from allauth.mfa.recovery_codes.views import GenerateRecoveryCodesView
from allauth.mfa.totp.views import ActivateTOTPView, DeactivateTOTPView
from allauth.mfa.webauthn.views import AddWebAuthnView, RemoveWebAuthnView
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from kernel.database import writing
from tenants.audit_actions import AuditAction
from tenants.services import second_factor


class Recorded:
    """done: what is told once it is done; None where a signal tells (`tenants.sign_in_records`)"""

    request: HttpRequest
    done: AuditAction | None = None
    type = ""

    def form_valid(self, form: Any) -> HttpResponse:
        with writing():
            response: HttpResponse = super().form_valid(form)  # type: ignore[misc] # a view's
            if self.done is not None:
                second_factor.was_changed(
                    self.done,
                    user=cast(User, self.request.user),
                    type=self.type,
                    session_key=self.request.session.session_key,
                    now=timezone.now(),
                )
        return response


class SecondFactor(IndexView):  # type: ignore[misc] # allauth has no types
    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        context: dict[str, Any] = super().get_context_data(**kwargs)
        required = second_factor.without_required([str(self.request.user.pk)])
        context["must_add_factor"] = bool(required)
        return context


class AddApp(Recorded, ActivateTOTPView):  # type: ignore[misc]
    done, type = AuditAction.MFA_ADD, "totp"


class RemoveApp(Recorded, DeactivateTOTPView):  # type: ignore[misc]
    done, type = AuditAction.MFA_REMOVE, "totp"


class AddKey(Recorded, AddWebAuthnView):  # type: ignore[misc]
    done, type = AuditAction.MFA_ADD, "webauthn"


class RemoveKey(Recorded, RemoveWebAuthnView):  # type: ignore[misc]
    done, type = AuditAction.MFA_REMOVE, "webauthn"


class RenewRecoveryCodes(Recorded, GenerateRecoveryCodesView):  # type: ignore[misc]
    done, type = AuditAction.RECOVERY_CODES_RENEW, "recovery_codes"


class ChangePassword(Recorded, PasswordChangeView):  # type: ignore[misc]
    pass


class SetPassword(Recorded, PasswordSetView):  # type: ignore[misc]
    pass


class ResetPassword(Recorded, PasswordResetFromKeyView):  # type: ignore[misc]
    pass
