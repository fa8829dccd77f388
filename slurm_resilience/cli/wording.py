"""Quantities as people read them."""

from __future__ import annotations

from datetime import datetime


def duration_text(seconds: float) -> str:
    """The two largest units, minutes and seconds with two digits where they come second."""
    whole = max(0, round(seconds))
    minutes, seconds_left = divmod(whole, 60)
    hours, minutes_left = divmod(minutes, 60)
    days, hours_left = divmod(hours, 24)
    if days:
        return f"{days} d {hours_left:02} h"
    if hours:
        return f"{hours} h {minutes_left:02} min"
    return f"{minutes} min {seconds_left:02} s" if minutes else f"{whole} s"


def time_text(time_s: float) -> str:
    """The clock on the wall here, to the second."""
    return datetime.fromtimestamp(time_s).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def count_text(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
