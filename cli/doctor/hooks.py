"""Checks of `holdfast doctor` of the webhooks that the configuration names, as `serve` makes them when it starts."""

from __future__ import annotations

from holdfast.cli.doctor.findings import Finding
from holdfast.runtime.config import Config
from holdfast.server.web.hooks import find_local_problems

REMEDY = "Correct it in holdfast.toml: holdfast serve does not start with it."


def check_hooks(config: Config) -> list[Finding]:
    """Return what is wrong with the hooks; a secret that is not set here `variables` tells."""
    problems = [Finding("hooks", "fault", f"hooks.{problem}", REMEDY) for problem in find_local_problems(config)]
    return problems or [Finding("hooks", "ok", f"{', '.join(config.hooks)}: blueprints and templates are right")]
