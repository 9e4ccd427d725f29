"""Makes a failing case smaller while it still fails the same way."""

import copy
import re


def _rename(code, old, new):
    return re.sub(rf"\b{old}\b", new, code)


def _without(case, index):
    """The case without a statement; its results are what it used."""
    gone = case.statements[index]
    smaller = copy.deepcopy(case)
    del smaller.statements[index]
    known = {name for name, _ in case.inputs}
    for statement in smaller.statements[:index]:
        known.update(statement.defines)
    uses = [name for name in gone.uses if name in known]
    for name in gone.defines:
        if name in known:  # written in place
            continue
        if not uses:
            used = any(name in later.uses
                       for later in smaller.statements[index:])
            if used:
                return None
            smaller.outputs = [o for o in smaller.outputs if o != name]
            continue
        for later in smaller.statements[index:]:
            later.code = _rename(later.code, name, uses[0])
            later.uses = [uses[0] if use == name else use
                          for use in later.uses]
        smaller.outputs = [uses[0] if o == name else o
                           for o in smaller.outputs]
    smaller.outputs = list(dict.fromkeys(smaller.outputs))
    return smaller if smaller.outputs and smaller.statements else None


def _variants(case):
    for index in reversed(range(len(case.statements))):
        yield _without(case, index)
    for name in case.outputs[:-1] + case.outputs[1:]:
        smaller = copy.deepcopy(case)
        smaller.outputs.remove(name)
        yield smaller
    used = {use for statement in case.statements for use in statement.uses}
    for entry in case.inputs:
        if entry[0] not in used and entry[0] not in case.outputs:
            smaller = copy.deepcopy(case)
            smaller.inputs.remove(entry)
            if smaller.inputs:
                yield smaller


def reduce_case(case, fails, limit=80):
    """`fails(case)`: whether it still does. At most `limit` questions."""
    smaller = True
    while smaller and limit > 0:
        smaller = False
        for variant in _variants(case):
            if variant is None:
                continue
            limit -= 1
            if limit <= 0:
                break
            if fails(variant):
                case, smaller = variant, True
                break
    return case
