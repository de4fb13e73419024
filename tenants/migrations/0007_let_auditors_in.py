"""Auditors and billing clerks have something to see in the admin now, which opens to staff."""

from django.db import migrations


def let_in(apps, editor):
    Membership = apps.get_model("tenants", "Membership")
    User = apps.get_model("auth", "User")
    people = Membership.objects.filter(role__in=("auditor", "billing")).values("user_id")
    User.objects.filter(pk__in=people).update(is_staff=True)


class Migration(migrations.Migration):
    dependencies = [("tenants", "0006_platform_roles"), ("auth", "0012_alter_user_first_name_max_length")]

    operations = [migrations.RunPython(let_in, migrations.RunPython.noop)]
