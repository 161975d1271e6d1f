"""Count how often a validator would visit JSON values, before it runs.

A union tries its choices one by one, and each choice visits everything below. So a value's visits
multiply with every union around it, and a hundred bytes can take minutes. They are counted here by
a walk visiting each value once. It knows that schemas would be applied to a value, and how often
each, and applies none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from types import NoneType
from typing import Any, Literal, TypeAlias

from handrail._schema.strictness import Core, fields_by_name, strip_label
from handrail._support import is_object

MAX_FREE_VISITS = 15_000
"""Visits allowed for any arguments: a few milliseconds."""
VISITS_PER_VALUE, VISITS_PER_ENTRY, CHARS_PER_VISIT = 4, 20, 10
"""Visits allowed in addition: per value, per entry of an object, and by length.

A visit takes about as long as parsing five short values, or one entry.
"""
_MAX_FEW_VISITS = 5
"""Visits per value that need not be counted for every call."""
_COPIES_PER_VISIT = 4
"""Values whose copying costs as much as a visit: a choice rejecting a container copies it.

One string costs as much by itself.
"""
_MAX_SCHEMAS = 512
"""Different schemas applied to one value."""
_MAX_LISTED_SCHEMAS = 20_000
"""Total schemas listed while counting one value's visits."""
_MAX_SCHEMA_SETS = 1_000
_MAX_SEEN_ONE_BY_ONE = 8

Excess: TypeAlias = Literal["", "ways", "gaps"]
"""Too many ways to read the values; or many missing fields, each of which costs a copy."""
_Asked: TypeAlias = dict[int, tuple[Core, int]]
"""The schemas applied to one value, by identity, and how often each is."""

_CONTAINERS = frozenset((list, dict))
_SCALARS = (str, int, float, bool, NoneType)
_PLAIN = {"str": str, "int": int, "float": float, "bool": bool, "none": NoneType}
"""Schemas accepting every value of a type, so a union tries no choice after them."""
_HARMLESS = frozenset(("type", "ref", "metadata", "serialization", "strict", "allow_inf_nan"))
_LISTS = frozenset(("list", "set", "frozenset"))
_BEHIND = {
    "json-or-python": "json_schema",
    "lax-or-strict": "strict_schema",
    **dict.fromkeys(
        "nullable default model dataclass custom-error function-before function-after "
        "function-wrap".split(),
        "schema",
    ),
}
"""Schemas passing a value on unchanged, and the key for the receiving schema."""


class _TooManyError(Exception):
    """One value has more visits than are counted."""


class VisitCounter:  # validation holds the interpreter lock, so no timeout ends it: decision 031
    """Counts one validator's visits."""

    def __init__(self, core: Core, definitions: Mapping[str, Core]) -> None:
        self._root = core
        self._definitions = definitions
        self._known: dict[int, _Asked | None] = {}
        self._schema_sets: dict[Any, _SchemaSet] = {}
        self._work = 0

    def excess(self, value: Any, chars: int) -> Excess:
        """Return why there would be too many visits; empty if there would not."""
        # earlier values fill this too: this one gets at least half of the room
        if self._work > _MAX_LISTED_SCHEMAS // 2:
            self._schema_sets.clear()
            self._work = 0
        try:
            count = _Count(value, self.schema_set([(self._root, 1)]))
        except _TooManyError:
            return "ways"
        allowed = VISITS_PER_VALUE * count.values + VISITS_PER_ENTRY * count.entries
        allowed += MAX_FREE_VISITS + chars // CHARS_PER_VISIT
        beyond = count.visits + count.copied // _COPIES_PER_VISIT - allowed
        if beyond <= 0:
            return ""
        # without the copies for missing fields, it would be within the limit
        return "gaps" if beyond <= count.gaps // _COPIES_PER_VISIT else "ways"

    def are_always_few(self) -> bool:
        """Return whether no value has many visits, so they need not be counted per call."""
        seen: set[tuple[int, int]] = set()
        try:
            todo = [(self.schema_set([(self._root, 1)]), 0)]
            while todo:
                state, copies = todo.pop()
                if (id(state), copies) in seen:
                    continue
                seen.add((id(state), copies))
                visits = max(state.visits_of.values()) + copies
                if visits > _MAX_FEW_VISITS or len(seen) > _MAX_SCHEMA_SETS:
                    return False
                todo += [(below, copies + state.refusals) for below in state.all_below()]
        except _TooManyError:
            return False
        return True

    def schema_set(self, asking: Iterable[tuple[Core, int]]) -> _SchemaSet:
        """Return the facts about values to which these schemas are applied, with their counts."""
        asking = list(asking)
        asked = self._sum(asking)
        # only a union alone is sure to try its choices in order, and stop at the first that fits
        in_order = len(asking) == 1 and asking[0][1] == 1
        key = (in_order, *((schema, count) for schema, (_, count) in asked.items()))
        if key not in self._schema_sets:
            self._work += len(asked)
            if self._work > _MAX_LISTED_SCHEMAS:
                raise _TooManyError
            self._schema_sets[key] = _SchemaSet(self, asked, in_order=in_order)
        return self._schema_sets[key]

    def _sum(self, asking: Iterable[tuple[Core, int]]) -> _Asked:
        asked: _Asked = {}
        total = 0
        for core, times in asking:
            for key, (leaf, count) in self.leaf_schemas(core).items():
                asked[key] = (leaf, asked.get(key, (leaf, 0))[1] + count * times)
                total += count * times
            if total > MAX_FREE_VISITS or len(asked) > _MAX_SCHEMAS:
                raise _TooManyError
        return asked

    def leaf_schemas(self, core: Core) -> _Asked:
        """Return the schemas applied to a value, without unions around them."""
        key = id(core)
        if key not in self._known:
            self._known[key] = None  # until it is known; it stays None if it is too much
            self._known[key] = self._take_apart(core)
        known = self._known[key]
        if known is None:
            raise _TooManyError
        return known

    def _take_apart(self, core: Core) -> _Asked:
        kind: str = core["type"]
        if kind == "definition-ref":
            return self.leaf_schemas(self._definitions[core["schema_ref"]])
        if kind == "union":
            return self._sum((strip_label(choice), 1) for choice in core["choices"])
        # a function computes the tag, and must not run here: any choice may be meant
        if kind == "tagged-union" and not isinstance(core["discriminator"], str):
            return self._sum((choice, 1) for choice in core["choices"].values())
        if kind == "chain":
            return self.leaf_schemas(core["steps"][0])
        if kind in _BEHIND:
            return self.leaf_schemas(core[_BEHIND[kind]])
        return {id(core): (core, 1)}


class _Count:
    """A walk over a JSON value, counting visits and their limits."""

    def __init__(self, value: Any, root: _SchemaSet) -> None:
        self.visits = root.visits_of[type(value)]
        self.copied = 0
        self.gaps = 0
        """Copied values due to missing fields."""
        self.values = 1
        self.entries = 0
        self._todo: list[tuple[Any, _SchemaSet, int, int]] = []
        if type(value) in _CONTAINERS:
            self._todo.append((value, root, 0, 0))
        while self._todo:
            node, state, copies, gaps = self._todo.pop()
            # each error has a copy of its value, so a refusal above copies everything below
            copies += state.refusals
            before = self.copied
            if is_object(node):
                fields = state.fields_of(node)
                missing = fields.count_missing(node)
                copies, gaps = copies + missing, gaps + missing
                self._enter_object(node, fields, copies, gaps)
            else:
                self.values += len(node)
                for below, children in state.items_of(node):
                    self._see_all(children, below, copies, gaps)
            if gaps:
                # the share of these copies for missing fields
                self.gaps += (self.copied - before) * gaps // copies

    def _enter_object(
        self, node: dict[str, Any], fields: _FieldStates, copies: int, gaps: int
    ) -> None:
        self.entries += len(node)
        self.copied += copies * _COPIES_PER_VISIT * len(node)  # the keys
        if not fields.names:
            self._see_all(list(node.values()), fields.others, copies, gaps)
            return
        for name, child in node.items():
            self._see(child, fields[name], copies, gaps)

    def _see(self, child: object, below: _SchemaSet, copies: int, gaps: int) -> None:
        kind = type(child)
        self.visits += below.visits_of[kind]
        self.copied += copies * (_COPIES_PER_VISIT if kind is str else 1)
        if kind in _CONTAINERS and child:
            self._todo.append((child, below, copies, gaps))

    def _see_all(self, children: list[Any], below: _SchemaSet, copies: int, gaps: int) -> None:
        if len(children) <= _MAX_SEEN_ONE_BY_ONE:
            for child in children:
                self._see(child, below, copies, gaps)
            return
        kinds = Counter(map(type, children))
        self.visits += sum(below.visits_of[kind] * count for kind, count in kinds.items())
        self.copied += copies * (len(children) + kinds[str] * (_COPIES_PER_VISIT - 1))
        if not _CONTAINERS.isdisjoint(kinds):
            full = [child for child in children if type(child) in _CONTAINERS and child]
            self._todo += [(child, below, copies, gaps) for child in full]


class _SchemaSet:
    """Facts about all values to which the same schemas are applied, equally often."""

    def __init__(self, visits: VisitCounter, asked: _Asked, *, in_order: bool) -> None:
        self._visits = visits
        self._asked = list(asked.values())
        total = sum(count for _, count in self._asked)
        self.refusals = max(0, total - 1)
        """How many schemas may reject a list or an object accepted by another one."""
        self.visits_of: dict[Any, int] = dict.fromkeys((*_SCALARS, list, dict), total)
        """Visits for a value itself, by its type."""
        if in_order:
            self.visits_of |= {kind: self._until_taken(kind) for kind in _SCALARS}
        self._tagged = [(core, n) for core, n in self._asked if core["type"] == "tagged-union"]
        self._chosen: dict[tuple[Any, ...], _FieldStates] = {}
        self._items: dict[int, _SchemaSet] = {}

    def _until_taken(self, kind: type) -> int:
        visits = 0
        for core, count in self._asked:
            visits += count
            if _PLAIN.get(core["type"]) is kind and core.keys() <= _HARMLESS:
                break
        return visits

    def fields_of(self, node: dict[str, Any]) -> _FieldStates:
        """Return the facts about an object's values."""
        return self._fields(tuple([_tag(node, core) for core, _ in self._tagged]))

    def items_of(self, node: list[Any]) -> Iterable[tuple[_SchemaSet, list[Any]]]:
        """Return a list's items, grouped by the schemas applied to them."""
        if not self._places:
            return ((self._item_at(0), node),)
        first = [(self._item_at(at), [child]) for at, child in enumerate(node[: self._places])]
        return (*first, (self._item_at(self._places), node[self._places :]))

    def all_below(self) -> Iterator[_SchemaSet]:
        """Yield the facts about any value inside."""
        yield from map(self._item_at, range(self._places + 1))
        # each pair of tags is another set of fields
        if len(self._tagged) > 1:
            raise _TooManyError
        tags: list[tuple[Any, ...]] = [
            (tag,) for core, _ in self._tagged for tag in core["choices"]
        ]
        for chosen in tags or [()]:
            fields = self._fields(chosen)
            yield from (fields[name] for name in fields.names)
            yield fields.others

    @cached_property
    def _places(self) -> int:
        """The number of list items with separate schemas."""
        tuples = [core for core, _ in self._asked if core["type"] == "tuple"]
        return max((len(core["items_schema"]) for core in tuples), default=0)

    def _item_at(self, place: int) -> _SchemaSet:
        if place not in self._items:
            self._items[place] = self._visits.schema_set(
                (below, count) for core, count in self._asked for below in _items(core, place)
            )
        return self._items[place]

    def _fields(self, tags: tuple[Any, ...]) -> _FieldStates:
        if tags not in self._chosen:
            # an object visits the choice its tag names, and no other
            asked = [(core, n) for core, n in self._asked if core["type"] != "tagged-union"]
            for (core, times), tag in zip(self._tagged, tags, strict=True):
                if tag is not None:
                    chosen = self._visits.leaf_schemas(core["choices"][tag]).values()
                    asked += [(leaf, count * times) for leaf, count in chosen]
            self._chosen[tags] = _FieldStates(self._visits, asked)
        return self._chosen[tags]


class _FieldStates(dict[str, _SchemaSet]):
    """Facts about an object's values, by their keys."""

    def __init__(self, visits: VisitCounter, asked: list[tuple[Core, int]]) -> None:
        super().__init__()
        self._visits = visits
        self._asked = [
            (_schemas_by_key(core), _schema_of_others(core), count) for core, count in asked
        ]
        self.names = frozenset(name for known, _, _ in self._asked for name in known)
        self.others = self._visits.schema_set(self._asking(""))
        self._required = Counter[str]()
        """How many schemas need a field."""
        for core, count in asked:
            self._required.update(dict.fromkeys(_mandatory_names(core), count))
        self._all_required = self._required.total()

    def count_missing(self, node: dict[str, Any]) -> int:
        """Return the number of missing fields. Each error has a copy of the object."""
        if not self._all_required:
            return 0
        return self._all_required - sum(map(self._required.__getitem__, node))

    def __missing__(self, name: str) -> _SchemaSet:
        if name not in self.names:
            return self.others
        state = self[name] = self._visits.schema_set(self._asking(name))
        return state

    def _asking(self, name: str) -> Iterator[tuple[Core, int]]:
        for known, others, count in self._asked:
            core = known.get(name, others)
            if core is not None:
                yield core, count


def _tag(node: dict[str, Any], core: Core) -> Any:
    """Return the value of an object's tag, or None if it matches no choice of a tagged union."""
    tag = node.get(core["discriminator"])
    return tag if type(tag) in (str, int) and tag in core["choices"] else None


def _items(core: Core, place: int) -> list[Core]:
    """Return the schemas applied to the item at one list index."""
    if core["type"] in _LISTS:
        return [core["items_schema"]] if "items_schema" in core else []
    if core["type"] != "tuple":
        return []
    variadic = core.get("variadic_item_index", len(core["items_schema"]))
    if place < variadic:
        return [core["items_schema"][place]]
    below: list[Core] = core["items_schema"][variadic:]
    return below


def _schemas_by_key(core: Core) -> dict[str, Core]:
    """Return the schemas of an object's fields, by all their possible keys."""
    known: dict[str, Core] = {}
    for name, field in fields_by_name(core):
        known[name] = known[field.get("validation_alias", name)] = field["schema"]
    return known


def _mandatory_names(core: Core) -> frozenset[str]:
    """Return the names of an object's required fields."""
    return frozenset(
        field.get("validation_alias", name)
        for name, field in fields_by_name(core)
        if field.get("required", field["schema"]["type"] != "default")
    )


def _schema_of_others(core: Core) -> Core | None:
    """Return the schema for values under all other keys, or None."""
    return core.get("values_schema") if core["type"] == "dict" else core.get("extras_schema")
