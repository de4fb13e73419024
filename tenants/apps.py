from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class TenantsConfig(AppConfig):
    name = "tenants"
    verbose_name = _("Tenants")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from tenants import password_records, sign_in_records

        sign_in_records.connect()
        password_records.connect()
