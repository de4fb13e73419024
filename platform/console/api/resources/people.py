from __future__ import annotations

from typing import Any, cast

from django.contrib.auth.models import User
from django.utils import timezone
from django_filters import CharFilter, ChoiceFilter, FilterSet
from rest_framework.request import Request
from rest_framework.response import Response

from console.api import preconditions
from console.api.operations import operation
from console.api.resource import Resource, found, represented, shown
from console.api.resource import person_id as checked
from console.api.shapes.people import (
    DeactivateShape,
    MemberChangeShape,
    MemberShape,
    NewMemberShape,
    PersonShape,
)
from kernel.errors import BadRequest
from tenants.audit_actions import AuditAction
from tenants.models import Membership, Role, Tenant
from tenants.permissions import Action
from tenants.services import accounts, people


class MemberFilters(FilterSet):  # type: ignore[misc] # no types
    role = ChoiceFilter(choices=Role.choices, label="What they are in the tenant.")
    username = CharFilter(field_name="user__username", label="Exactly.", max_length=150)


class Members(Resource):
    tags = ["Members"]
    ordering = ("pk",)

    @operation(
        "listMembers",
        "A tenant's members",
        needs=Action.MEMBER_VIEW,
        answer=MemberShape(many=True),
        filters=MemberFilters,
    )
    def get(self, request: Request, tenant_id: str) -> Response:
        return self.listed(_memberships(tenant_id), MemberShape, MemberFilters)

    @operation(
        "addMember",
        "Make a person a member",
        needs=Action.MEMBER_MANAGE,
        body=NewMemberShape,
        answer=MemberShape,
        status=201,
        tells=AuditAction.MEMBER_ADD,
        about="Somebody who has an account already. Nobody gives a role above their own.",
    )
    def post(self, request: Request, tenant_id: str, body: dict[str, Any]) -> Response:
        user = User.objects.filter(username=body["username"], is_active=True).first()
        if user is None:
            raise BadRequest("Nobody has this username.", code="person_not_found", param="username")
        membership = people.add_member(
            tenant=Tenant.objects.get(pk=tenant_id),
            user=user,
            role=body["role"],
            actor=self.caller.actor,
            now=timezone.now(),
        )
        response = shown(membership, MemberShape, status=201)
        response["Location"] = f"{request.path}/{user.pk}"
        return response


class OneMember(Resource):
    tags = ["Members"]

    @operation("getMember", "A member", needs=Action.MEMBER_VIEW, answer=MemberShape)
    def get(self, request: Request, tenant_id: str, person_id: str) -> Response:
        return shown(_member(tenant_id, person_id), MemberShape)

    @operation(
        "changeMember",
        "Give a member another role",
        needs=Action.MEMBER_MANAGE,
        body=MemberChangeShape,
        answer=MemberShape,
        tells=AuditAction.MEMBER_CHANGE,
        if_match=True,
        errors=(412,),
    )
    def patch(
        self, request: Request, tenant_id: str, person_id: str, body: dict[str, Any]
    ) -> Response:
        membership = _member(tenant_id, person_id)
        people.change_role(
            membership=membership,
            role=body["role"],
            actor=self.caller.actor,
            now=timezone.now(),
            check=lambda row: preconditions.check(request, represented(row, MemberShape)),
        )
        return shown(membership, MemberShape)

    @operation(
        "removeMember",
        "End a membership",
        needs=Action.MEMBER_MANAGE,
        answer=None,
        status=204,
        tells=AuditAction.MEMBER_REMOVE,
        about="Within a second the person's sockets in this tenant are closed and what they asked"
        " for there is ended. Their account and their other tenants stay.",
    )
    def delete(self, request: Request, tenant_id: str, person_id: str) -> Response:
        people.remove_member(
            membership=_member(tenant_id, person_id), actor=self.caller.actor, now=timezone.now()
        )
        return Response(status=204)


class PersonFilters(FilterSet):  # type: ignore[misc] # no types
    username = CharFilter(label="Exactly.", max_length=150)


class People(Resource):
    tags = ["People"]
    ordering = ("pk",)

    @operation(
        "listPeople",
        "Everybody's accounts",
        needs=Action.PERSON_VIEW,
        answer=PersonShape(many=True),
        filters=PersonFilters,
    )
    def get(self, request: Request) -> Response:
        return self.listed(User.objects.all(), PersonShape, PersonFilters)


class OnePerson(Resource):
    tags = ["People"]

    @operation("getPerson", "A person's account", needs=Action.PERSON_VIEW, answer=PersonShape)
    def get(self, request: Request, person_id: str) -> Response:
        return shown(_person(person_id), PersonShape)


class Deactivate(Resource):
    tags = ["People"]

    @operation(
        "deactivatePerson",
        "Switch a person's account off",
        needs=Action.PERSON_MANAGE,
        body=DeactivateShape,
        answer=PersonShape,
        tells=AuditAction.PERSON_CHANGE,
        about="Their sessions end for good; within a second their sockets are closed and what they"
        " asked for is ended. Never refused, not even for a last owner: that may not wait.",
    )
    def post(self, request: Request, person_id: str, body: dict[str, Any]) -> Response:
        person = accounts.deactivate(
            user=_person(person_id),
            actor=self.caller.actor,
            now=timezone.now(),
            revokes_keys=body["revoke_keys"],
        )
        return shown(person, PersonShape)


class Activate(Resource):
    tags = ["People"]

    @operation(
        "activatePerson",
        "Let a person in again",
        needs=Action.PERSON_MANAGE,
        answer=PersonShape,
        tells=AuditAction.PERSON_CHANGE,
        about="With the roles that they have; sessions and keys of before stay ended.",
    )
    def post(self, request: Request, person_id: str) -> Response:
        person = accounts.activate(
            user=_person(person_id), actor=self.caller.actor, now=timezone.now()
        )
        return shown(person, PersonShape)


def _memberships(tenant_id: str) -> Any:
    return Membership.objects.filter(tenant_id=tenant_id).select_related("user")


def _member(tenant_id: str, person_id: str) -> Membership:
    return cast(Membership, found(_memberships(tenant_id), user_id=checked(person_id)))


def _person(person_id: str) -> User:
    return cast(User, found(User.objects.all(), pk=checked(person_id)))
