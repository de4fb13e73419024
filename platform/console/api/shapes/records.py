from __future__ import annotations

from rest_framework import serializers

from console.api.fields import Choice, Shape, Whole
from tenants.models import ActorType, AuditOutcome, Decision


class AuditRecordShape(Shape):
    example = {
        "seq": 12,
        "at": "2030-01-01T12:00:00Z",
        "tenant_id": "ten_01kb8w3v9m2xq4s5t6v7w8x9y0",
        "actor_type": "user",
        "actor_id": "7",
        "key_id": "",
        "auth_method": "session",
        "ip": "192.0.2.7",
        "request_id": "req_01kb8w3v9m2xq4s5t6v7w8x9y0",
        "action": "member.change",
        "object_type": "member",
        "object_id": "8",
        "before": {"role": "member"},
        "after": {"role": "admin"},
        "decision": "allowed",
        "reason": "",
        "outcome": "done",
        "prev_hash": "5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8",
        "hash": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    }

    seq = Whole(max_value=None, help_text="Place in the platform's one chain.")
    at = serializers.DateTimeField()
    tenant_id = serializers.CharField(allow_null=True)
    actor_type = Choice(choices=ActorType.values)
    actor_id = serializers.CharField()
    key_id = serializers.CharField()
    auth_method = serializers.CharField()
    ip = serializers.CharField()
    request_id = serializers.CharField()
    action = serializers.CharField()
    object_type = serializers.CharField()
    object_id = serializers.CharField()
    before = serializers.DictField()
    after = serializers.DictField()
    decision = Choice(choices=Decision.values)
    reason = serializers.CharField()
    outcome = Choice(choices=AuditOutcome.values)
    prev_hash = serializers.CharField()
    hash = serializers.CharField()


class DayShape(Shape):
    day = serializers.DateField()
    generations = Whole(max_value=None)
    prompt_tokens = Whole(max_value=None)
    cached_tokens = Whole(max_value=None)
    output_tokens = Whole(max_value=None)


class UsageShape(Shape):
    example = {
        "first": "2030-01-01",
        "last": "2030-01-02",
        "days": [
            {
                "day": "2030-01-01",
                "generations": 3,
                "prompt_tokens": 120,
                "cached_tokens": 64,
                "output_tokens": 300,
            }
        ],
    }

    first = serializers.DateField()
    last = serializers.DateField()
    days = DayShape(many=True, help_text="Those on which there was anything, the first first.")
