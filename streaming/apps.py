from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class StreamingConfig(AppConfig):
    name = "streaming"
    verbose_name = _("Chat")
    default_auto_field = "django.db.models.BigAutoField"
