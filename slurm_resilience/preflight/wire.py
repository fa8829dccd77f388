"""Findings, cards, checks and contexts as JSON values, and back. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from slurm_resilience.preflight.check import Check, Context
from slurm_resilience.preflight.result import Finding, Outcome, Problem
from slurm_resilience.preflight.round import Card

_LONGEST_SENTENCE = 2000
"""In characters: somebody's whole traceback is no sentence."""


def finding_value(finding: Finding) -> dict[str, Any]:
    return {
        "outcome": finding.outcome.value,
        "sentence": finding.sentence[:_LONGEST_SENTENCE],
        "problem": finding.problem.value if finding.problem else None,
        "remedy": finding.remedy,
        "measured": dict(finding.measured),
        "node": finding.node,
    }


def finding_of(value: Mapping[str, Any]) -> Finding:
    """Raises KeyError, ValueError and TypeError for what is none."""
    problem = value.get("problem")
    return Finding(
        Outcome(value["outcome"]),
        str(value["sentence"]),
        None if problem is None else Problem(problem),
        value.get("remedy"),
        dict(value.get("measured") or {}),
        value.get("node"),
    )


def card_value(card: Card) -> dict[str, Any]:
    return {each.name: getattr(card, each.name) for each in fields(card)}


def card_of(value: Mapping[str, Any]) -> Card:
    """Raises KeyError, ValueError and TypeError for what is none."""
    return Card(
        task=int(value["task"]),
        node=str(value["node"]),
        host=str(value["host"]),
        addresses=tuple(str(each) for each in value["addresses"]),
        ports=tuple(int(each) for each in value["ports"]),
        boot_id=str(value["boot_id"]),
        cpus=int(value["cpus"]),
    )


def check_value(check: Check) -> dict[str, Any]:
    value = {each.name: getattr(check, each.name) for each in fields(check)}
    return value | {"hung": check.hung.value}


def check_of(value: Mapping[str, Any]) -> Check:
    return Check(**{**value, "hung": Outcome(value["hung"])})


def context_value(context: Context) -> dict[str, Any]:
    """Without what the node knows better: its name and its environment."""
    value = {each.name: getattr(context, each.name) for each in fields(context)}
    paths = {name: None if value[name] is None else str(value[name]) for name in ("root", "run_dir")}
    return {name: each for name, each in (value | paths).items() if name not in ("node", "environment")}


def context_of(value: Mapping[str, Any], *, node: str, environment: Mapping[str, str]) -> Context:
    run_dir = value.get("run_dir")
    rest = {name: each for name, each in value.items() if name not in ("root", "run_dir")}
    return Context(
        node=node,
        environment=environment,
        root=Path(value.get("root") or "/"),
        run_dir=None if run_dir is None else Path(run_dir),
        **rest,
    )
