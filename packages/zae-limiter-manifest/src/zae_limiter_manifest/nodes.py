"""What was read of a YAML document: values, and the places of their parts."""

from typing import Any, Final

from attrs import define

from .checks import Repeated
from .problems import Occurrence

_NOTHING: Final[dict[Any, Any]] = {}  # of all nodes without parts, which are most


@define
class Node:
    """A value, its offset, the number of nodes in it, and the offsets of its keys and parts.

    A part is a node, or the offset of a scalar: a large manifest is mostly scalars. A list has no keys.
    """

    value: object
    at: int
    size: int = 1
    keys: dict[object, int] = _NOTHING
    parts: dict[object, "Node | int"] = _NOTHING

    def add(self, key: object, key_at: int | None, part: "Node") -> None:
        if not self.parts:
            self.parts = {}
        self.size += part.size
        self.parts[key] = part if part.parts else part.at
        if key_at is not None:
            if not self.keys:
                self.keys = {}
            self.keys[key] = key_at

    def add_scalar(self, key: object, key_at: int, at: int) -> None:
        if not self.parts:
            self.parts, self.keys = {}, {}
        self.size += 1
        self.parts[key] = at
        self.keys[key] = key_at

    def add_again(self, key: object, key_at: int, part: "Node", before: object) -> Repeated:
        """Add a value of a repeated key, and return all its values; the key keeps its first place."""
        values = before if isinstance(before, Repeated) else Repeated([before])
        several = self.parts[key]
        if isinstance(several, int) or several.value is not values:
            first, several = several, Node(values, self.keys[key])
            several.keys, several.parts = {Occurrence(0): self.keys[key]}, {Occurrence(0): first}
            self.parts[key] = several
        several.add(Occurrence(len(values.values)), key_at, part)
        values.values.append(part.value)
        self.size += part.size
        return values

    def maps(self) -> list["Node"]:
        """Return this map, or the maps of this list, without those that have no keys."""
        nodes = self.parts.values() if isinstance(self.value, list) else [self]
        return [each for each in nodes if isinstance(each, Node) and isinstance(each.value, dict)]

    def merge(self, other: "Node") -> None:
        """Add the entries of another map whose keys this map does not have; they keep their places."""
        assert isinstance(self.value, dict)
        assert isinstance(other.value, dict)
        if not self.parts:
            self.parts, self.keys = {}, {}
        self.size += other.size
        for key, part in other.parts.items():
            if key not in self.value:
                self.value[key], self.parts[key], self.keys[key] = other.value[key], part, other.keys[key]
