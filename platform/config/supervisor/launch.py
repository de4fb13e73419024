"""From nothing to running: what `manage.py up` does, in order, and what it tells on the way."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from contextlib import suppress
from pathlib import Path

from django.conf import settings

from config.demo import address
from config.supervisor import instance, preparation, probe, services
from config.supervisor.control import Control, socket_path
from config.supervisor.instance import Listener
from config.supervisor.messages import Report
from config.supervisor.operations import Operations
from config.supervisor.process import last_lines
from config.supervisor.progress import Steps
from config.supervisor.reporting import report
from config.supervisor.services import Service
from config.supervisor.supervisor import Child, Supervisor
from inference.weights import bundled
from kernel.clock import SystemClock

VALKEY_START_S = 15.0
POLL_S = 0.25
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class CannotLaunch(Exception):
    """Why the platform can't be started: one sentence for the person at the terminal, with a log's
    end if there is one.
    """


class Launch:
    """One run of the whole platform."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps
        self._clock = SystemClock()
        self._stop = asyncio.Event()
        self._started_at = float(os.environ.get("NEHIR_STARTED_AT", time.time()))

    async def run(self) -> None:
        """Start, keep running, stop. Raises CannotLaunch, AlreadyRunning and Unusable, everything
        stopped.
        """
        var = Path(settings.VAR)
        with instance.hold(var, address()):
            instance.require_layout(var)
            self._listener = Listener(settings.HOST, settings.PORT)
            preparation.make_socket_folder(Path(settings.SOCKET_FOLDER), var=var)
            services.empty_metrics_folder()
            self._supervisor = Supervisor(clock=self._clock, say=self._say)
            self._operations = self._make_operations()
            control = Control(self._operations, self._report)
            self._heed_signals()
            try:
                await control.open(socket_path(Path(settings.SOCKET_FOLDER)))
                await self._until_stopped()
            finally:
                self._steps.say("\nStopping … (once more: at once)")
                await control.close()
                self._listener.close()
                await self._supervisor.stop()
                self._steps.say("Stopped.")

    def _make_operations(self) -> Operations:
        return Operations(
            self._supervisor,
            self._clock,
            successor=self._successor,
            before_drain=self._refuse_connections_if_none_stays,
            is_ready=probe.serves,
        )

    async def _report(self) -> Report:
        return report(
            self._supervisor.children,
            await probe.replicas(),
            going_on=self._operations.going_on,
            failed=self._operations.failed,
        )

    def _successor(self, service: Service) -> Service:
        if service.kind == "web":
            self._listener.listen()
        return services.successor(service, descriptor=self._listener.descriptor)

    def _refuse_connections_if_none_stays(self, leaving: list[Child]) -> None:
        """Those that a web process isn't started for would wait for nothing."""
        webs = [child for child in self._supervisor.children if child.service.kind == "web"]
        if leaving and all(child in leaving or child.is_over for child in webs):
            self._listener.close()

    def _heed_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in STOP_SIGNALS:
            loop.add_signal_handler(number, self._told_to_stop)

    def _told_to_stop(self) -> None:
        if self._stop.is_set():
            self._supervisor.hurry()
        self._stop.set()

    async def _until_stopped(self) -> None:
        """Returns when told to stop; raises what the launch raised."""
        launch = asyncio.create_task(self._launch())
        stop = asyncio.create_task(self._stop.wait())
        await asyncio.wait({launch, stop}, return_when=asyncio.FIRST_COMPLETED)
        if launch.done():
            stop.cancel()
            launch.result()
            await self._stop.wait()
        launch.cancel()
        with suppress(asyncio.CancelledError):
            await launch

    async def _launch(self) -> None:
        if settings.REDIS_IS_EMBEDDED:
            await self._start_valkey()
        with self._steps.step("Preparing the database"):
            await asyncio.to_thread(preparation.migrate)
        if settings.ENGINE == "vllm" and not bundled.is_prepared(Path(settings.MODEL_STORE)):
            await self._prepare_model()
        demo = await self._seed_demo()
        engines = [
            self._supervisor.start(service)
            for service in await asyncio.to_thread(preparation.engines)
        ]
        self._listener.listen()
        webs = [self._supervisor.start(web) for web in services.webs(self._listener.descriptor)]
        with self._steps.step("Starting the web server"):
            await self._answers("/healthz", webs)
        for service in (services.worker(), services.beat()):
            self._supervisor.start(service)
        self._steps.say(f"\nNehir is running at {address()}\n{demo}")
        self._steps.say(f"  Ctrl-C stops it. Logs: {services.log_folder()}\n")
        await self._tell_readiness(engines)

    async def _start_valkey(self) -> None:
        with self._steps.step("Starting Valkey"):
            child = self._supervisor.start(services.valkey())
            deadline = self._clock.monotonic() + VALKEY_START_S
            while not await probe.redis_answers():
                if child.starts > 1 or self._clock.monotonic() > deadline:
                    raise CannotLaunch(
                        _with_log("The embedded Valkey does not start.", child.service)
                    )
                await asyncio.sleep(POLL_S / 5)

    async def _prepare_model(self) -> None:
        service = services.Service("prepare_model", services.manage("prepare_model"))
        with self._steps.step(f"Preparing the model {bundled.NAME} (once)"):
            status = await self._supervisor.run_once(service)
        if status:
            raise CannotLaunch(_with_log("The model could not be prepared.", service))

    async def _seed_demo(self) -> str:
        """The table of logins and keys, empty where there is no demo."""
        if not settings.DEMO:
            return ""
        with self._steps.step("Setting up the demo"):
            demo = await asyncio.to_thread(preparation.seed_demo, self._clock.now())
        return "\n".join([*(f"  {note}" for note in demo.notes), demo.table()])

    async def _answers(self, path: str, webs: list[Child]) -> None:
        # A connection waits until somebody accepts it: only ask when they do.
        for web in webs:
            while not await probe.serves(web):  # noqa: ASYNC110
                await asyncio.sleep(POLL_S)
        while not await probe.web_answers(address(), path):  # noqa: ASYNC110
            await asyncio.sleep(POLL_S)

    async def _tell_readiness(self, engines: list[Child]) -> None:
        """Say when the engines can answer, and say it again whenever they could not for a while."""
        if not engines:
            self._say("No active route is for this engine, so none was started.")
            return
        ready, told = False, False
        while True:
            was_ready, ready = ready, await probe.web_answers(address(), "/readyz")
            if ready and not was_ready:
                again = (
                    "again" if told else f"{time.time() - self._started_at:.0f} s after the start"
                )
                names = ", ".join(child.service.release or "" for child in engines)
                self._say(f"{names}: ready to answer {again}.")
                told = True
            await asyncio.sleep(POLL_S if not ready else 1.0)

    def _say(self, line: str) -> None:
        self._steps.say(f"{self._clock.now().astimezone():%H:%M:%S} {line}")


def _with_log(sentence: str, service: services.Service) -> str:
    return "\n".join(
        [
            sentence,
            *(f"    {line}" for line in last_lines(service.log)),
            f"  All of it: {service.log}",
        ]
    )
