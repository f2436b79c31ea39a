"""What a recording's total lacks, since a sensor that is there could not be read, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .kinds import Omission
from .plain_values import listed

if TYPE_CHECKING:
    from collections.abc import Mapping

GRANT = "; this command grants it (tprof doctor says what it exposes): "
"""Before the command in a sentence, which lines of a terminal show whole, since it is there to be copied."""
MOST_NAMES = 4


def unread_sentences(manifest: Mapping[str, Any]) -> list[str]:
    """Return a sentence for what was unreadable for the same want of a command, none where all joules were read."""
    groups: dict[tuple[bool, object], list[Mapping[str, Any]]] = {}
    for one in manifest.get("left_out") or ():
        if one.get("kind") == Omission.UNREADABLE:
            groups.setdefault((one.get("estimated") is True, one.get("command")), []).append(one)
    return [_sentence(group, command, is_estimated=by) for (by, command), group in groups.items()]


def _sentence(group: list[Mapping[str, Any]], command: object, *, is_estimated: bool) -> str:
    names = listed((one.get("name") for one in group), MOST_NAMES)
    what = f"joules are estimated since {names} gave none" if is_estimated else f"the total lacks the joules of {names}"
    return f"{what}: {group[0].get('why')}{f'{GRANT}{command}' if command else ''}"
