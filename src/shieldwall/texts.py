"""Text from files that anyone may have written: read with budgets, and shown without what steers a terminal.

Every YAML and JSON file of a user, a run or a packed run is read here. YAML has whole numbers of 128 bits, no
dates, and limits on its length, its depth, and its size once aliases are written out.
"""

import json
import re
from itertools import chain
from pathlib import Path
from typing import Any

import yaml

from shieldwall.errors import UserError

MAX_YAML = 2**18  # characters of a YAML file: recipes and settings have 1,000, the paper's studies 12,000
MAX_FILE = 2**28  # bytes of a file that is read whole: certificates of 50,000 inputs have 20 MB
_MAX_DEPTH = 32
_MAX_NODES = 50_000
_LARGEST = 2**128
# Control characters but tab and newline, what turns the direction of text, and halves of characters.
_STEERING = "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff"
_UNSHOWN = re.compile(f"[{_STEERING}]")


def shown(text: str) -> str:
    """The text with an escape such as \\x1b for each character that a terminal would obey, not show."""
    return _UNSHOWN.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def title(text: object) -> str:
    """The same on one line, for a name that a table shows."""
    return shown(" ".join(str(text).split()))


def is_folder_name(text: str) -> bool:
    """Whether a text can name a folder inside another, and nothing outside it."""
    special = text in ("", ".", "..") or text.startswith(("-", "~")) or len(text.encode()) > 200
    return not special and not set("/\\\0\n\t") & set(text) and shown(text) == text


def read_file(path: Path, limit: int = MAX_FILE) -> bytes:
    if path.exists() and not path.is_file():
        raise UserError(f"{path} is not a regular file")
    try:
        with path.open("rb") as file:
            content = file.read(limit + 1)
    except (OSError, ValueError) as error:  # ValueError: a name with a zero byte
        raise UserError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if len(content) > limit:
        raise UserError(f"{path} has more than {limit:,} bytes")
    return content


def read_yaml(path: Path) -> list[Any]:
    return yaml_documents(read_file(path, MAX_YAML), str(path))


def yaml_documents(content: bytes | str, where: str) -> list[Any]:
    """The documents of a YAML text; errors say `where`."""
    if len(content) > MAX_YAML:
        raise UserError(f"{where} is too long: more than {MAX_YAML:,} characters")
    try:
        text = content.decode() if isinstance(content, bytes) else content
        return list(yaml.load_all(text, _Loader))
    # Its constructors raise nearly anything on a value that does not fit its tag.
    except (yaml.YAMLError, ValueError, LookupError, AttributeError, TypeError) as error:
        raise UserError(f"{where} is not readable YAML: {' '.join(str(error).split())[:300]}") from error


def json_value(content: bytes | str, where: str) -> Any:
    """The value of a JSON text; errors say `where`."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where} is damaged: it is not JSON ({error})") from error


class _Loader(yaml.SafeLoader):
    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._depth = 0
        self._sizes: dict[yaml.Node, tuple[int, int]] = {}

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise yaml.YAMLError(f"it is nested more than {_MAX_DEPTH} deep")
        is_alias = self.check_event(yaml.AliasEvent)
        node: yaml.Node | None = super().compose_node(parent, index)
        self._depth -= 1
        if node is not None and not is_alias:
            self._weigh(node)
        return node

    def _weigh(self, node: yaml.Node) -> None:
        """Refuse a node that is too large or too deep once its aliases are written out."""
        parts = node.value if isinstance(node, yaml.CollectionNode) else []
        parts = [*chain.from_iterable(parts)] if isinstance(node, yaml.MappingNode) else parts
        if any(part not in self._sizes for part in parts):
            raise yaml.YAMLError("an alias refers to what holds it")
        sizes = [self._sizes[part] for part in parts]
        size, depth = 1 + sum(size for size, _ in sizes), 1 + max((depth for _, depth in sizes), default=0)
        if size > _MAX_NODES or depth > _MAX_DEPTH:
            raise yaml.YAMLError("it is too large once its aliases are written out")
        self._sizes[node] = size, depth

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        value: int = super().construct_yaml_int(node) if len(node.value) <= 200 else _LARGEST
        if abs(value) >= _LARGEST:
            raise yaml.YAMLError("a whole number has more than 128 bits")
        return value


_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_yaml_int)
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def names(text: str) -> list[str]:
    """The parts of a list such as we,mme."""
    return [part.strip() for part in text.split(",") if part.strip()]


def numbers(option: str, text: str) -> list[float]:
    """The numbers in a list such as 0,0.25,0.5."""
    try:
        return [float(part) for part in names(text)]
    except ValueError as error:
        raise UserError(f"{option} takes numbers such as 0,0.25,0.5; given: {text!r}") from error
