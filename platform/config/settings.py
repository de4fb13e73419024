"""Nehir's one settings module. What may differ between installs comes from the environment
(docs/operations.md).
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

from django.utils.translation import gettext_lazy as _

from config import accounts, admin_theme, management_api, schedule, web_security
from config.environment import (
    ENVIRONMENTS,
    choice,
    choices,
    env,
    folder,
    networks,
    number,
    numbered_secrets,
    refuse_unsafe_production,
    secret,
    socket_folder,
    whole,
)
from tenants import key_format

BASE_DIR = Path(__file__).resolve().parent.parent.parent

# -- Where and as what this install runs
ENVIRONMENT = choice("NEHIR_ENV", ENVIRONMENTS, "dev")
PRODUCTION = ENVIRONMENT == "production"
DEBUG = env.bool("NEHIR_DEBUG", False)
DEMO = env.bool("NEHIR_DEMO", ENVIRONMENT == "dev")
VAR = folder("NEHIR_VAR", BASE_DIR / "var")
MODEL_STORE = folder("NEHIR_MODELS", VAR / "models")
SOCKET_FOLDER = socket_folder(VAR)
HOST = env.str("NEHIR_HOST", "127.0.0.1")
PORT = whole("NEHIR_PORT", 8000, low=1, high=65535)

# -- Secrets
SECRET_KEY = secret("NEHIR_SECRET_KEY", VAR / "secrets" / "secret_key", production=PRODUCTION)

# -- API keys. Peppers are numbered so that they can be changed while old keys still work.
KEY_ENVIRONMENT = key_format.ENVIRONMENTS[ENVIRONMENT]
KEY_PEPPER_VERSION = whole("NEHIR_KEY_PEPPER_VERSION", 1, low=1, high=32_767)
KEY_PEPPERS = numbered_secrets(
    "NEHIR_OTHER_KEY_PEPPERS",
    secret("NEHIR_KEY_PEPPER", VAR / "secrets" / "key_pepper", production=PRODUCTION),
    KEY_PEPPER_VERSION,
)
# How old what a web process knows of keys and sessions may be; what is in use is looked at again
# twice as often.
KEY_CACHE_S = number("NEHIR_KEY_CACHE_S", 0.8, low=0, high=1)
# How long a key that was rotated works beside its successor, unless said otherwise.
KEY_OVERLAP_H = number("NEHIR_KEY_OVERLAP_H", 24, low=0, high=8_760)

# -- Network
ALLOWED_HOSTS = env.list("NEHIR_ALLOWED_HOSTS", default=[] if PRODUCTION else ["*"])
CSRF_TRUSTED_ORIGINS = env.list("NEHIR_ORIGINS", default=[])
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if PRODUCTION else None
SECURE_SSL_REDIRECT = PRODUCTION
SECURE_HSTS_SECONDS = 31_536_000 if PRODUCTION else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = PRODUCTION
SECURE_HSTS_PRELOAD = PRODUCTION
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = PRODUCTION
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_NAME = web_security.cookie_name("sessionid", production=PRODUCTION)
CSRF_COOKIE_NAME = web_security.cookie_name("csrftoken", production=PRODUCTION)
# Nothing of ours reads it: forms carry the token.
CSRF_COOKIE_HTTPONLY = True
X_FRAME_OPTIONS = "DENY"
CONTENT_SECURITY_POLICY = web_security.pages(production=PRODUCTION)
CONTENT_POLICY_MORE = web_security.MORE
# Proxies that are believed about whom they forward for (X-Forwarded-For).
TRUSTED_PROXIES = networks("NEHIR_TRUSTED_PROXIES")
# The API's own limit; Django's applies to forms.
MAX_BODY_BYTES = whole("NEHIR_MAX_BODY_BYTES", 2_000_000, low=1_000, high=100_000_000)
DATA_UPLOAD_MAX_MEMORY_SIZE = MAX_BODY_BYTES
DATA_UPLOAD_MAX_NUMBER_FIELDS = 1000
DATA_UPLOAD_MAX_NUMBER_FILES = 4

# -- The web server: how many share a socket, what a connection buffers for its reader
WEB_PROCESSES = whole("NEHIR_WEB_PROCESSES", 1, low=1, high=64)
WEB_HIGH_WATER_BYTES = whole("NEHIR_WEB_HIGH_WATER_BYTES", 65_536, low=1_024, high=16_777_216)
WEB_SEND_BUFFER_BYTES = whole("NEHIR_WEB_SEND_BUFFER_BYTES", 131_072, low=4_096, high=16_777_216)
# For a request's headers, and for a body without progress.
WEB_HEADER_TIMEOUT_S = number("NEHIR_WEB_HEADER_TIMEOUT_S", 20, low=1, high=3600)
# Of one web process, whatever they do; 0: no limit. Far above what may stream.
WEB_MAX_CONNECTIONS = whole("NEHIR_WEB_MAX_CONNECTIONS", 0, low=0, high=1_000_000)
WEB_STALL_TIMEOUT_S = number("NEHIR_WEB_STALL_TIMEOUT_S", 60, low=1, high=3600)

# -- Applications
INSTALLED_APPS = [
    "daphne",
    "unfold.apps.BasicAppConfig",
    "console.apps.ConsoleAdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "allauth",
    "allauth.account",
    "allauth.mfa",
    "allauth.usersessions",
    "allauth.socialaccount",
    "allauth.socialaccount.providers.openid_connect",
    "allauth.socialaccount.providers.saml",
    "channels",
    "csp",
    "django_celery_beat",
    "django_prometheus",
    "rest_framework",
    "django_filters",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "web",
    "tenants",
    "inference",
    "streaming",
    "console",
    "config",
]
# Pages only; the API under /v1/ has a short chain of its own (config.asgi), since each of these
# costs it a thread's turn.
MIDDLEWARE = [
    "django_prometheus.middleware.PrometheusBeforeMiddleware",
    "web.request_id.RequestIdMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "web.content_policy.ContentPolicyMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "tenants.account.gate.AccountGateMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "console.scope.AdminScopeMiddleware",
    "django_prometheus.middleware.PrometheusAfterMiddleware",
]
ROOT_URLCONF = "config.urls"
ASGI_APPLICATION = "config.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "django.template.context_processors.i18n",
            ],
        },
    },
]
STATIC_URL = "static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
STATIC_ROOT = VAR / "static"
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {
        "BACKEND": "web.static_files.HashedStaticFiles"
        if PRODUCTION
        else "django.contrib.staticfiles.storage.StaticFilesStorage"
    },
}
WHITENOISE_USE_FINDERS = not PRODUCTION
WHITENOISE_AUTOREFRESH = False

# -- Sign-in
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "chat"
LOGOUT_REDIRECT_URL = "login"
AUTHENTICATION_BACKENDS = ["allauth.account.auth_backends.AuthenticationBackend"]
# Platform roles whose people must have a second factor; tenants say so of their own.
MFA_REQUIRED_FOR = choices(
    "NEHIR_MFA_REQUIRED_FOR", ("operator", "release_manager", "approver", "auditor", "billing")
)
globals().update(
    accounts.allauth(
        production=PRODUCTION,
        tries_per_account=whole("NEHIR_SIGN_IN_TRIES_PER_ACCOUNT", 5, low=1, high=1_000),
        tries_per_address=whole("NEHIR_SIGN_IN_TRIES_PER_ADDRESS", 20, low=1, high=100_000),
    )
)
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]

# -- Mail: to the console, or by an SMTP server such as smtp+tls://user:password@host:587
globals().update(env.email_url("EMAIL_URL", default="consolemail://"))
EMAIL_TIMEOUT = 10
DEFAULT_FROM_EMAIL = env.str("NEHIR_MAIL_FROM", "nehir@localhost")

# -- Languages
LANGUAGE_CODE = "en"
LANGUAGES = [("en", _("English")), ("tr", _("Turkish"))]
LOCALE_PATHS = [BASE_DIR / "locale"]
USE_I18N = USE_TZ = True
TIME_ZONE = "UTC"

# -- Database: SQLite on one box, PostgreSQL beyond
DATABASE_THREADS = whole("NEHIR_DATABASE_THREADS", 8, low=1, high=64)
DATABASES = {
    "default": env.db_url("DATABASE_URL", default="sqlite:///" + quote(str(VAR / "nehir.sqlite3")))
}
if DATABASES["default"]["ENGINE"].endswith("sqlite3"):
    DATABASES["default"] |= {
        "CONN_MAX_AGE": None,
        # In memory, SQLite locks whole tables and never waits: not the database that is shipped.
        "TEST": {"NAME": VAR / "test.sqlite3"},
        # IMMEDIATE takes the write lock at BEGIN: writers wait for each other instead of failing
        # with "locked".
        "OPTIONS": {
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
        },
    }
else:
    DATABASES["default"] |= {
        "CONN_MAX_AGE": 0,
        # What the URL asks for, sslmode for one, stays.
        "OPTIONS": {
            **DATABASES["default"].get("OPTIONS", {}),
            "pool": {"min_size": 1, "max_size": DATABASE_THREADS + 4, "timeout": 10},
        },
    }

# -- Redis: queue, token logs, replica registry, channel layer, Celery broker
EMBEDDED_REDIS_SOCKET = SOCKET_FOLDER / "valkey.sock"
REDIS_IS_EMBEDDED = not env.str("REDIS_URL", "")
REDIS_URL = env.str("REDIS_URL", "") or f"unix://{EMBEDDED_REDIS_SOCKET}"
CACHES = {
    "default": {
        "BACKEND": "kernel.cache.OutageCache",
        "LOCATION": REDIS_URL,
        "KEY_PREFIX": "nehir:cache",
    }
}
CHANNEL_LAYERS = {
    "default": {
        "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
        "CONFIG": {"hosts": [REDIS_URL], "prefix": "nehir:channels"},
    }
}

# -- Celery
CELERY_BROKER_URL = REDIS_URL.replace("unix://", "redis+socket://", 1)
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
# Above the longest task, or acks_late tasks run several times.
CELERY_BROKER_TRANSPORT_OPTIONS = {"global_keyprefix": "nehir:celery:", "visibility_timeout": 3600}
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_TIME_LIMIT = 600
CELERY_TASK_IGNORE_RESULT = True
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_BEAT_SCHEDULER = "config.beat:LeaderScheduler"
CELERY_BEAT_SCHEDULE = schedule.ROUNDS

# -- Engine host
ENGINE = choice("ENGINE", ("vllm", "fake"), "vllm")
FAKE_TTFT_MS = number("NEHIR_FAKE_TTFT_MS", 50, low=0, high=60_000)
FAKE_ITL_MS = number("NEHIR_FAKE_ITL_MS", 20, low=0, high=60_000)
# Requests a host may have inside its engine and not yet decoding; fairness is decided before it,
# not in it.
ENGINE_QUEUE_DEPTH = whole("NEHIR_ENGINE_QUEUE_DEPTH", 8, low=1, high=8)
# Tokens that an engine prefills in one step: as long as that takes all that wait in it, it may have
# more of them.
ENGINE_STEP_TOKENS = whole("NEHIR_ENGINE_STEP_TOKENS", 1024, low=0, high=1_000_000)
ENGINE_MAX_RUNNING = whole("NEHIR_ENGINE_MAX_RUNNING", 64, low=1, high=4096)
ENGINE_KV_CACHE_GIB = whole("NEHIR_ENGINE_KV_CACHE_GIB", 2, low=1, high=1024)
ENGINE_LOAD_TIMEOUT_S = whole("NEHIR_ENGINE_LOAD_TIMEOUT_S", 600, low=10, high=7200)
# A replica that has not been heard of for this long is lost, and others go on with what it ran.
REPLICA_TIMEOUT_S = number("NEHIR_REPLICA_TIMEOUT_S", 2, low=1, high=60)
# How many engines a generation may lose before it is given up: it may be what kills them.
TAKEOVER_LIMIT = whole("NEHIR_TAKEOVER_LIMIT", 3, low=0, high=100)
# Longer than the longest prefill: an engine with work that makes no token for this long is ended.
ENGINE_STALL_TIMEOUT_S = number("NEHIR_ENGINE_STALL_TIMEOUT_S", 120, low=1, high=3600)

# -- Admission
# How long a request is left for a replica that has served its prompt's beginning; 0: not at all.
PREFIX_WAIT_MS = number("NEHIR_PREFIX_WAIT_MS", 50, low=0, high=1_000)
# What is told apart of a prompt's beginning: the engine's block, or several of them.
PREFIX_BLOCK_TOKENS = whole("NEHIR_PREFIX_BLOCK_TOKENS", 128, low=1, high=4096)
# How many more than the asking one that replica may run, and still have requests left for it.
PREFIX_SLACK = whole("NEHIR_PREFIX_SLACK", 8, low=0, high=4096)
QUEUE_LIMIT = whole("NEHIR_QUEUE_LIMIT", 1000, low=1, high=100_000)
QUEUE_LIMIT_PER_TENANT = whole("NEHIR_QUEUE_LIMIT_PER_TENANT", 500, low=1, high=100_000)
QUEUE_TIMEOUT_S = whole("NEHIR_QUEUE_TIMEOUT_S", 600, low=1, high=86_400)
# Service that tenants share fairly: their tokens by these costs.
INPUT_TOKEN_COST = number("NEHIR_INPUT_TOKEN_COST", 1, low=0.001, high=1000)
OUTPUT_TOKEN_COST = number("NEHIR_OUTPUT_TOKEN_COST", 2, low=0.001, high=1000)
# Of a replica's slots, those that only tenants below their share of it take: a flood leaves them.
KEPT_SLOT_SHARE = number("NEHIR_KEPT_SLOT_SHARE", 0.0625, low=0, high=0.5)
# Of the service of the classes above it, what a lower priority class gets at least while it waits.
CLASS_FLOOR = number("NEHIR_CLASS_FLOOR", 0.05, low=0, high=0.5)
DEFAULT_MAX_TOKENS = whole("NEHIR_DEFAULT_MAX_TOKENS", 512, low=1, high=1_000_000)

# -- Readers. Tokens that an answer may be ahead of its reader, and how long it waits for one.
HIGH_WATER_TOKENS = whole("NEHIR_HIGH_WATER_TOKENS", 256, low=1, high=1_000_000)
DETACH_GRACE_S = number("NEHIR_DETACH_GRACE_S", 30, low=1, high=86_400)
# What answers that are ahead of their readers may keep of an engine: for how long at a time, and
# how much of its KV cache together.
HOLD_LIMIT_S = number("NEHIR_HOLD_LIMIT_S", 180, low=1, high=86_400)
HOLD_KV_SHARE = number("NEHIR_HOLD_KV_SHARE", 0.5, low=0, high=1)
CHECKPOINT_TTL_S = whole("NEHIR_CHECKPOINT_TTL_S", 86_400, low=60, high=2_592_000)
CHECKPOINT_BYTES_PER_TENANT = whole(
    "NEHIR_CHECKPOINT_BYTES_PER_TENANT", 50_000_000, low=10_000, high=10**12
)
# How long an identical request is answered by the first one's generation.
REPLAY_TTL_S = whole("NEHIR_REPLAY_TTL_S", 900, low=1, high=604_800)
# How long the management API answers an Idempotency-Key as the first time.
IDEMPOTENCY_TTL_S = whole("NEHIR_IDEMPOTENCY_TTL_S", 86_400, low=60, high=2_592_000)
# How long a process that is told to stop lets streams end by themselves.
DRAIN_GRACE_S = number("NEHIR_DRAIN_GRACE_S", 20, low=0, high=3600)

# -- Connections that receive answers, over all web processes: in all, of a tenant, of a client (a
# person or service account). Beyond them new ones wait.
SSE_LIMIT = whole("NEHIR_SSE_LIMIT", 10_000, low=1, high=1_000_000)
SSE_LIMIT_PER_TENANT = whole("NEHIR_SSE_LIMIT_PER_TENANT", 5_000, low=1, high=1_000_000)
SSE_LIMIT_PER_CLIENT = whole("NEHIR_SSE_LIMIT_PER_CLIENT", 2_500, low=1, high=1_000_000)
WS_LIMIT = whole("NEHIR_WS_LIMIT", 10_000, low=1, high=1_000_000)
WS_LIMIT_PER_TENANT = whole("NEHIR_WS_LIMIT_PER_TENANT", 5_000, low=1, high=1_000_000)
WS_LIMIT_PER_CLIENT = whole("NEHIR_WS_LIMIT_PER_CLIENT", 100, low=1, high=1_000_000)
CONNECTION_QUEUE = whole("NEHIR_CONNECTION_QUEUE", 1_000, low=0, high=10_000)
# For how long a web process that was killed still counts.
CONNECTION_LEASE_S = number("NEHIR_CONNECTION_LEASE_S", 15, low=1, high=600)

# -- Token log
LOG_TTL_S = whole("NEHIR_LOG_TTL_S", 3600, low=60, high=604_800)
LOG_MAX_ENTRIES = whole("NEHIR_LOG_MAX_ENTRIES", 20_000, low=100, high=10_000_000)

# -- Admin
UNFOLD = admin_theme.THEME

# -- Management API
REST_FRAMEWORK = management_api.FRAMEWORK
SPECTACULAR_SETTINGS = management_api.DESCRIPTION

# -- Metrics and logs
METRICS_TOKEN = env.str("NEHIR_METRICS_TOKEN", "")
PROMETHEUS_EXPORT_MIGRATIONS = False
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {
            "()": "web.redaction.RedactingFormatter",
            "format": "%(asctime)s %(levelname)s %(name)s: %(message)s",
        }
    },
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": env.str("NEHIR_LOG_LEVEL", "INFO")},
    "loggers": {
        "daphne": {"level": "WARNING"},
        "httpx": {"level": "WARNING"},
        "django.channels.server": {"level": "WARNING"},
    },
}

if PRODUCTION:
    refuse_unsafe_production(globals())
