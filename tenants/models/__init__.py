"""Tenancy's state, one file a concept. Its verbs are in `tenants.services`."""

from tenants.models.api_key import ApiKey
from tenants.models.key_scope import KeyScopeChoice
from tenants.models.membership import Membership, Role
from tenants.models.priority import Priority
from tenants.models.service_account import ServiceAccount
from tenants.models.tenant import Tenant

__all__ = ["ApiKey", "KeyScopeChoice", "Membership", "Priority", "Role", "ServiceAccount", "Tenant"]
