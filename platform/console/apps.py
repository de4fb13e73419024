from django.apps import AppConfig
from django.contrib.admin import apps as admin_apps


class ConsoleConfig(AppConfig):
    name = "console"
    default = True


class ConsoleAdminConfig(admin_apps.AdminConfig):
    """Django's admin with our site; takes the place of `django.contrib.admin` in INSTALLED_APPS."""

    default_site = "console.site.ConsoleSite"
    default = False
