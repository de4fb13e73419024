from importlib import import_module

from django.apps import AppConfig


class NehirConfig(AppConfig):
    name = "config"

    def ready(self) -> None:
        # Makes it the current Celery application, for whatever process sends a task.
        import_module("config.celery")
        import_module("config.checks")
        from config.supervision import ControlSocket
        from console.replicas.supervision import provide

        provide(ControlSocket())
