"""People's accounts, for operators: a tenant's managers meet people as memberships only.

Groups and permissions are left out: nothing here asks them."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.models import User
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm

from console.pages import PlatformAdmin
from console.scope import actor_of
from tenants.permissions import Action
from tenants.services import accounts


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
                    user=User.objects.get(pk=id), actor=actor_of(request), now=timezone.now()
                )
        return response
