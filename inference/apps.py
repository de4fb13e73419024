from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class InferenceConfig(AppConfig):
    name = "inference"
    verbose_name = _("Inference")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from inference.health import engine_check
        from inference.services import seals
        from tenants.services import audit_check
        from web import health

        health.register("engine", engine_check)
        audit_check.register(seals.breaks)
