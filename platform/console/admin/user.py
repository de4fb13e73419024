"""People's accounts, for operators: a tenant's managers meet people as memberships only.

Groups and permissions are left out: nothing here asks them."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm

from console.pages import PlatformAdmin
from console.scope import actor_of
from tenants.permissions import Action
from tenants.services import accounts, second_factor
from tenants.services.sessions import end_sessions


@admin.register(User)
class UserPages(UserAdmin, PlatformAdmin):  # type: ignore[misc,type-arg] # not generic at run time
    sees, manages = Action.PERSON_VIEW, Action.PERSON_MANAGE
    listed = accounts.LISTED
    form = UserChangeForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm
    list_display = ("username", "email", "is_active", "is_staff", "is_superuser", "last_login")
    list_filter = ("is_active", "is_staff", "is_superuser")
    filter_horizontal = ()
    readonly_fields = ("last_login", "date_joined")
    fieldsets = (
        (None, {"fields": ("username", "password")}),
        (_("Personal info"), {"fields": ("first_name", "last_name", "email")}),
        (_("Access"), {"fields": ("is_active", "is_staff", "is_superuser")}),
        (_("Dates"), {"fields": ("last_login", "date_joined")}),
    )

    actions = ("end_their_sessions", "reset_second_factors")

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        accounts.save_account(user=obj, actor=actor_of(request), now=timezone.now())

    @admin.action(description=_("End their sessions"), permissions=["change"])
    def end_their_sessions(self, request: HttpRequest, queryset: QuerySet[User]) -> None:
        actor, now = actor_of(request), timezone.now()
        ended = sum(
            end_sessions(user=user, actor=actor, now=now, reason="asked_for") for user in queryset
        )
        said = ngettext("%(count)d session was ended.", "%(count)d sessions were ended.", ended)
        self.message_user(request, said % {"count": ended}, messages.SUCCESS)

    @admin.action(description=_("Reset their second factors"), permissions=["change"])
    def reset_second_factors(self, request: HttpRequest, queryset: QuerySet[User]) -> None:
        for user in queryset:
            second_factor.reset(user=user, actor=actor_of(request), now=timezone.now())
        self.message_user(
            request,
            _("Their second factors are gone; with the password alone they sign in anew."),
            messages.SUCCESS,
        )

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        accounts.delete_account(user=obj, actor=actor_of(request), now=timezone.now())

    def user_change_password(
        self, request: HttpRequest, id: str, form_url: str = ""
    ) -> HttpResponse:
        with transaction.atomic():
            response = super().user_change_password(request, id, form_url)
            # Django leads away from the form once it has set the password.
            if request.method == "POST" and response.status_code == 302:
                accounts.password_was_set(
                    user=User.objects.get(pk=id),
                    actor=actor_of(request),
                    now=timezone.now(),
                    but_key=request.session.session_key,
                )
        return response
