from __future__ import annotations

from allauth.account.forms import LoginForm


class SignInForm(LoginForm):  # type: ignore[misc] # allauth has no types
    def add_prefix(self, field_name: str) -> str:
        """`username` is what password managers, and scripts, know the field by."""
        return super().add_prefix("username" if field_name == "login" else field_name)  # type: ignore[no-any-return]
