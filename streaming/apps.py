from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class StreamingConfig(AppConfig):
    name = "streaming"
    verbose_name = _("Chat")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from inference.services import settlement
        from streaming.services.answers import keep_answer

        settlement.on_settled(keep_answer)
