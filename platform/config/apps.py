from django.apps import AppConfig


class NehirConfig(AppConfig):
    name = "config"
