"""Writes record-effects.txt: the pages before and after each kind of log record.

The effects are derived from Microsoft's published source only (names of its functions are in the reasons), not from the engine.
`python3 record_effects.py > record-effects.txt` writes the file again. `record_effects.rs` redoes every vector and compares.

A vector consists of lines. `vector` names it, `reason` says which rule it tests. `before` and `after` start a page, which the
following `node` lines fill: flags, length of the prefix, rest of the key, data. `header` lines name fields of the database's header.
`record` lines are log records in their order. `error` is the number that redo must report. `size` is the page size if it is not 4096.
`later` puts the records into the generation after the required range. The database has 100 pages, tree numbers up to 30, and
version 0x620,0x14,0. Pages without a line are zero.
"""

import struct
import sys

VERSIONED, DELETED, COMPRESSED = 1, 2, 4
ROOT, LEAF, PARENT, EMPTY, SPACE = 0x1, 0x2, 0x4, 0x8, 0x20
INDEX, LONG_VALUE, NON_UNIQUE, NEW_FORMAT, SCRUBBED, PRE_INIT = 0x40, 0x80, 0x400, 0x800, 0x4000, 0x20000
BEFORE, AFTER, DATABASE, SESSION, TREE, FDP = 0x100, 0x200, 1, 3, 9, 32
SHRUNK, REVERTED, NIL = 2**64 - 3, 2**64 - 4, 2**64 - 1
OUT = []


class Node:
    def __init__(self, key, data, flags=0, prefix=0):
        self.key, self.data, self.prefix = key, data, prefix
        self.flags = flags | (COMPRESSED if prefix else 0)

    def copy(self):
        return Node(self.key, self.data, self.flags & ~COMPRESSED, self.prefix)


class Page:
    def __init__(self, number, nodes=(), flags=LEAF, head=b"", time=BEFORE, links=(0, 0), tree=TREE, free=0, fill=None):
        self.number, self.time, self.links, self.tree, self.free, self.fill = number, time, links, tree, free, fill
        self.flags, self.head = flags | NEW_FORMAT, head
        self.nodes = [n.copy() for n in nodes]

    def copy(self):
        page = Page(self.number, self.nodes, self.flags, self.head, self.time, self.links, self.tree, self.free, self.fill)
        page.flags = self.flags
        return page

    def full_key(self, node):
        start = 16 if self.flags & SPACE and self.flags & ROOT else 0
        return self.head[start : start + node.prefix] + node.key

    def prefix(self):
        """NDGetPrefix: roots have none, except after the split buffer of a space tree."""
        if not self.flags & ROOT:
            return self.head
        return self.head[16:] if self.flags & SPACE else b""

    def image(self, size):
        """Bytes of the page (CPAGE layout): lines in order, tags at the end."""
        small = size < 16384
        start = 40 if small else 80
        body, tags = bytearray(self.head), [(0, len(self.head), 0)]
        for node in self.nodes:
            line = struct.pack("<H", node.prefix) if node.flags & COMPRESSED else b""
            line = bytearray(line + struct.pack("<H", len(node.key)) + node.key + node.data)
            if not small:
                line[1] |= node.flags << 5
            tags.append((len(body), len(line), node.flags if small else 0))
            body += line
        out = bytearray(size)
        room = size - start - len(body) - 4 * len(tags)
        struct.pack_into("<QQIIIHHHHI", out, 0, 0, self.time, *self.links, self.tree, room, self.free, len(body), len(tags), self.flags | 0x2000)
        if not small:
            struct.pack_into("<I", out, 64, self.number)
        out[start : start + len(body)] = body
        for i, (at, length, flags) in enumerate(tags):
            struct.pack_into("<HH", out, size - 4 * (i + 1), length, at | flags << 13)
        return bytes(out), start + len(body), 4 * len(tags)

    def without_gap(self, size=4096):
        """A before-image as CPAGE::DehydratePage makes it: the tags follow the data at an even offset."""
        out, head, tail = self.image(size)
        head += head % 2
        out = bytearray(out[:head] + out[size - tail :])
        struct.pack_into("<H", out, 28, struct.unpack_from("<H", out, 28)[0] - (size - len(out)))
        return bytes(out)


def common(a, b):
    n = 0
    while n < min(len(a), len(b)) and a[n] == b[n]:
        n += 1
    return n


def fit(page, key):
    """Bytes of the key that the page's prefix replaces: none unless it saves more than its own length (2)."""
    shared = common(page.prefix(), key)
    return shared if shared > 2 else 0


def dirty(page, time=AFTER):
    """CPAGE::Dirty clears the scrubbed flag; SetDbtime then sets the time of the record."""
    page = page.copy()
    page.time, page.flags = time, page.flags & ~SCRUBBED
    return page


def emptied(page):
    """NDEmptyPage: the prefix goes (a root keeps its external header), the nodes go, the page is flagged empty."""
    page.nodes, page.flags = [], page.flags | EMPTY
    if not page.flags & ROOT:
        page.head = b""
    return page


# Records

def page_part(kind, page, line=0, flags=4, after=AFTER, before=BEFORE):
    return struct.pack("<BHBIQQIBHB", kind, SESSION, DATABASE, page, after, before, 7, 1, line, flags)


def node_part(kind, page, line=0, versioned=0, flags=4, after=AFTER, before=BEFORE, version=11, tree=TREE, fdp=FDP):
    return page_part(kind, page, line, flags | versioned, after, before) + struct.pack("<III", version, fdp, tree)


def insert(page, line, prefix, key, data, versioned=0, **more):
    return node_part(29, page, line, versioned, **more) + struct.pack("<HHH", len(key), len(prefix), len(data)) + prefix + key + data


def flag_insert(page, line, key, data, versioned=0, **more):
    return node_part(30, page, line, versioned, **more) + struct.pack("<HH", len(key), len(data)) + key + data


def flag_insert_data(page, line, key, data, versioned=0, **more):
    return node_part(31, page, line, versioned, **more) + struct.pack("<HHI", len(key), len(data), 12) + key + data


def replace(page, line, old, new, versioned=0, **more):
    return node_part(33, page, line, versioned, **more) + struct.pack("<HHH", len(new), len(old), len(new)) + new


def difference(wide, offset, new, old_length):
    """FLGAppendDiff: offset and flags, new length, old length unless it is implied, new bytes."""
    flags = 0
    if old_length == 0:
        flags |= 0x40
    elif old_length == len(new):
        flags |= 0x20
    if old_length > 255 or len(new) > 255:
        flags |= 0x80
    head = struct.pack("<HB", offset, flags) if wide else struct.pack("<H", offset | flags << 8)
    unit = "<H" if flags & 0x80 else "<B"
    lengths = struct.pack(unit, len(new)) + (b"" if flags & 0x60 else struct.pack(unit, old_length))
    return head + lengths + new


def apply(old, changes):
    new, at = b"", 0
    for offset, data, length in changes:
        new += old[at:offset] + data
        at = offset + length
    return new + old[at:]


def replace_d(page, line, old, changes, wide, versioned=0):
    text = b"".join(difference(wide, *c) for c in changes)
    lengths = struct.pack("<HHH", len(text) | (0x8000 if wide else 0), len(old), len(apply(old, changes)))
    return node_part(34, page, line, versioned) + lengths + text


def flag_delete(page, line, versioned=0, **more):
    return node_part(32, page, line, versioned, **more)


def delta(page, line, key, value, offset, wide=False, versioned=0, **more):
    return node_part(93 if wide else 37, page, line, versioned, **more) + struct.pack("<HHqH" if wide else "<HHiH", len(key), 0, value, offset) + key


def undo(page, line, key, operation, after, before, bookmark=b""):
    return node_part(39, page, line, 0, after=after, before=before) + struct.pack("<HHHB", len(key), len(bookmark), operation, 1) + key + bookmark


def undo_info(page, line, key, operation, image=b""):
    return node_part(36, page, line, 1) + struct.pack("<HHHhhH", len(key), 0, operation, len(image), 0, len(image)) + key + image


def set_header(page, data, **more):
    return node_part(38, page, **more) + struct.pack("<H", len(data)) + data


def empty_tree(page, pages):
    text = b"".join(struct.pack("<QII", time, number, 0) for number, time in pages)
    return node_part(48, page) + struct.pack("<H", len(text)) + text


def new_page(number, tree=TREE, after=AFTER):
    return struct.pack("<BHBIIQ", 95, SESSION, DATABASE, number, tree, after)


def create_single(number, parent, pages, flags=0, unique=True, tree=20):
    return page_part(25, number, 0, 4 if unique else 0) + struct.pack("<IIII", tree, parent, pages, flags)


def create_multiple(number, parent, pages, flags=0, unique=True, tree=20):
    return page_part(24, number, 0, 4 if unique else 0) + struct.pack("<IIIIII", tree, number + 1, number + 2, parent, pages, flags)


def convert(number, owned, parent, primary, secondary, bits, flags=NEW_FORMAT, unique=True):
    return page_part(58, number, 0, 4 if unique else 0) + struct.pack(
        "<IIIIIIIII", TREE, owned, owned + 1, parent, owned, primary, secondary, bits, flags)


def split(page, new, right=0, parent=0, kind=1, operation=1, line=0, split_line=0, lines=0, new_flags=LEAF | NEW_FORMAT,
          split_flags=LEAF | NEW_FORMAT, free=(0, 0), prefixes=(-1, -1), old=b"", fresh=b"", key=b"", image=b"", before=BEFORE,
          space=0):
    return page_part(62, page, 0, 4 | space, before=before) + struct.pack(
        "<IIQIQIIBBHHHIIhhiiHHHII", new, right, BEFORE if right else NIL, parent, BEFORE if parent else NIL, FDP, TREE, kind, operation,
        line, split_line, lines, new_flags, split_flags, *free, *prefixes, len(old), len(fresh), len(key), int(0 < len(image) < 4096), len(image)
    ) + key + old + fresh + image


def merge(page, right=0, left=0, parent=0, kind=1, line=0, first=0, flags=0, total=0, free=0, separator=b"", image=b"", before=BEFORE):
    return page_part(63, page, line, before=before) + struct.pack(
        "<IQIQIQIIHHHHBBHII", right, BEFORE if right else NIL, left, BEFORE if left else NIL, parent, BEFORE if parent else NIL, FDP,
        TREE, total, total, free, first, flags, kind, len(separator), int(0 < len(image) < 4096), len(image)) + separator + image


def page_move(page, target, left, right, parent, line, moved, size, root=0, before=BEFORE):
    image, head, tail = moved.image(size)
    return page_part(65, page, before=before) + struct.pack(
        "<IIIIQQQIIiIII", target, left, right, parent, BEFORE if left else NIL, BEFORE if right else NIL, BEFORE if parent else NIL,
        FDP, TREE, line, root, head, tail) + image[:head] + image[size - tail :]


def scrub(page, unused, operations=b""):
    return node_part(64, page) + struct.pack("<IIH", unused, len(operations), len(operations)) + operations


def begin():
    return struct.pack("<BHBI", 8, SESSION, 0x10, 7)


def commit():
    return struct.pack("<BHBI", 9, SESSION, 0, 8)


def transaction(*records):
    return [begin(), *records, commit()]


def macro(*records, time=AFTER):
    return transaction(struct.pack("<BHQ", 11, SESSION, time), *records, struct.pack("<BHQ", 12, SESSION, time))


# Vectors

def text(data):
    return data.hex() if data else "-"


def show(word, page):
    fill = f" fill={page.fill:#x}" if page.fill is not None else ""
    OUT.append(f"{word} {page.number} time={page.time:#x} previous={page.links[0]} next={page.links[1]} tree={page.tree} "
               f"flags={page.flags:#x} free={page.free} head={text(page.head)}{fill}")
    OUT.extend(f"node {n.flags} {n.prefix} {text(n.key)} {text(n.data)}" for n in page.nodes)


def vector(name, reason, before, records, after, header=(), error=None, size=4096, later=False):
    OUT.append("")
    OUT.append(f"vector {name}")
    OUT.append(f"reason {reason}")
    if size != 4096:
        OUT.append(f"size {size}")
    if later:
        OUT.append("later")
    for page in before:
        show("before", page) if isinstance(page, Page) else OUT.append(page)
    OUT.extend(f"record {r.hex()}" for r in records)
    if error is not None:
        OUT.append(f"error {error}")
    for page in after:
        show("after", page)
    OUT.extend(f"header {line}" for line in header)


def both(name, reason, make):
    """The same vector on small and on large pages: their node flags are in different places."""
    for size, suffix in ((4096, ""), (32768, "-32k")):
        before, records, after = make(size)
        vector(name + suffix, reason, before, records, after, size=size)


KEYS = [b"\x7f\x80\x00\x00\x10", b"\x7f\x80\x00\x00\x20", b"\x7f\x80\x00\x00\x30"]
HEAD = b"\x7f\x80\x00\x00\x18"


def leaf(flags=(0, 0, 0), number=40, **more):
    nodes = [Node(k, b"data%d" % i, f & 3, 0) for i, (k, f) in enumerate(zip(KEYS, flags))]
    return Page(number, nodes, **more)


def squeezed(flags=(0, 0, 0), number=40):
    """A leaf whose nodes store their keys against the prefix."""
    nodes = [Node(k[4:], b"data%d" % i, f, 4) for i, (k, f) in enumerate(zip(KEYS, flags))]
    return Page(number, nodes, head=HEAD)


def named(flags):
    return "".join(c for bit, c in ((1, "v"), (2, "d"), (4, "c")) if flags & bit) or "plain"


def changed(page, line, time=AFTER, set_flags=0, clear=0, data=None):
    page = dirty(page, time)
    node = page.nodes[line]
    node.flags = node.flags & ~clear | set_flags
    if data is not None:
        node.data = data
    return page


def inserted(page, line, node, time=AFTER):
    page = dirty(page, time)
    page.nodes.insert(line, node)
    return page


def inserts():
    rule = "ErrNDInsert: the node has the prefix of the record and no flag except versioned, which the record's flag sets"
    key = b"\x7f\x80\x00\x00\x28"
    for versioned in (0, 1):
        for line in (0, 2, 3):
            where = {0: "first", 2: "middle", 3: "last"}[line]
            k = {0: b"\x01\x02", 2: key, 3: b"\xff\x01"}[line]
            both(f"insert-{where}" + ("-versioned" if versioned else ""), rule, lambda _, k=k, line=line, versioned=versioned: (
                [leaf()], transaction(insert(40, line, b"", k, b"new", versioned)),
                [inserted(leaf(), line, Node(k, b"new", versioned))]))
        both("insert-compressed" + ("-versioned" if versioned else ""), rule, lambda _, versioned=versioned: (
            [squeezed()], transaction(insert(40, 2, key[:4], key[4:], b"new", versioned)),
            [inserted(squeezed(), 2, Node(key[4:], b"new", versioned, 4))]))
    for bit, word in ((2, "deleted"), (0x10, "concurrent-index"), (0x20, "system-task")):
        vector(f"insert-record-says-{word}", "the flags of the record except versioned do not reach the node", [leaf()],
               transaction(insert(40, 2, b"", key, b"new", flags=4 | bit)), [inserted(leaf(), 2, Node(key, b"new"))])
    scrubbed = leaf(flags=(0, 0, 0))
    scrubbed.flags |= SCRUBBED
    both("insert-on-scrubbed-page", "CPAGE::Dirty clears the scrubbed flag of a page", lambda _: (
        [scrubbed], transaction(insert(40, 2, b"", key, b"new")), [inserted(scrubbed, 2, Node(key, b"new"))]))
    root = Page(FDP, flags=ROOT | LEAF, head=bytes(16))
    both("insert-into-empty-root", rule, lambda _: ([root], transaction(insert(FDP, 0, b"", key, b"new", 1)),
                                                    [inserted(root, 0, Node(key, b"new", 1))]))
    space = Page(33, [Node(b"\0\0\0\x2d", b"\4\0\0\0")], flags=ROOT | LEAF | SPACE, head=bytes(16))
    both("insert-into-space-tree", rule, lambda _: (
        [space], transaction(insert(33, 1, b"", b"\0\0\0\x37", b"\2\0\0\0", flags=12)),
        [inserted(space, 1, Node(b"\0\0\0\x37", b"\2\0\0\0"))]))
    index = Page(40, [Node(b"\x10\x01", b"\x90\x01")], flags=LEAF | INDEX | NON_UNIQUE)
    both("insert-into-non-unique-index", rule, lambda _: (
        [index], transaction(insert(40, 1, b"", b"\x10\x01", b"\x90\x02", 1, flags=0)),
        [inserted(index, 1, Node(b"\x10\x01", b"\x90\x02", 1))]))


def flag_inserts():
    rule = "ErrNDFlagInsert clears deleted in every case; versioned is set by the record's flag and never cleared"
    for flags in (2, 3, 6, 7):
        for versioned in (0, 1):
            def make(_, flags=flags, versioned=versioned):
                page = squeezed((0, flags & 3, 0)) if flags & 4 else leaf((0, flags, 0))
                return ([page], transaction(flag_insert(40, 1, KEYS[1], b"data1", versioned)),
                        [changed(page, 1, set_flags=versioned, clear=DELETED)])
            both(f"flag-insert-{named(flags)}" + ("-versioned" if versioned else ""), rule, make)
    space = Page(34, [Node(b"\0\0\0\x2d", b"\4\0\0\0", DELETED)], flags=ROOT | LEAF | SPACE, head=bytes(16))
    both("flag-insert-in-space-tree", "space trees are not versioned: the node must become visible, or its pages leak", lambda _: (
        [space], transaction(flag_insert(34, 0, b"\0\0\0\x2d", b"\4\0\0\0", flags=12)), [changed(space, 0, clear=DELETED)]))
    rule = "ErrNDFlagInsertAndReplaceData replaces the data, keeps the key, and clears deleted in every case"
    for flags in (2, 3, 6, 7):
        for versioned in (0, 1):
            for data, word in ((b"d", "shorter"), (b"other", "same"), (b"much longer than before", "longer")):
                if flags in (3, 7) and word == "same":
                    continue

                def make(_, flags=flags, versioned=versioned, data=data):
                    page = squeezed((0, flags & 3, 0)) if flags & 4 else leaf((0, flags, 0))
                    return ([page], transaction(flag_insert_data(40, 1, KEYS[1], data, versioned)),
                            [changed(page, 1, set_flags=versioned, clear=DELETED, data=data)])
                both(f"flag-insert-data-{named(flags)}-{word}" + ("-versioned" if versioned else ""), rule, make)
    both("flag-insert-data-in-space-tree", "as flag-insert-in-space-tree, with a new number of pages", lambda _: (
        [space], transaction(flag_insert_data(34, 0, b"\0\0\0\x2d", b"\7\0\0\0", flags=12)),
        [changed(space, 0, clear=DELETED, data=b"\7\0\0\0")]))


def replaces():
    rule = "ErrNDReplace keeps all flags of the node, also deleted; versioned is set by the record's flag and never cleared"
    for flags in (0, 1, 2, 3, 4, 5):
        for versioned in (0, 1):
            for data, word in ((b"d", "shorter"), (b"other", "same"), (b"much longer than before", "longer")):
                if flags and word != "longer":
                    continue

                def make(_, flags=flags, versioned=versioned, data=data):
                    page = squeezed((0, flags & 3, 0)) if flags & 4 else leaf((0, flags, 0))
                    return ([page], transaction(replace(40, 1, b"data1", data, versioned)),
                            [changed(page, 1, set_flags=versioned, data=data)])
                both(f"replace-{named(flags)}-{word}" + ("-versioned" if versioned else ""), rule, make)
    rule = "ErrLGGetAfterImage: bytes up to the offset are old; the new bytes stand for the old length; flags as for Replace"
    old = bytes(range(32))
    cases = [
        ("insert", [(4, b"abc", 0)], 0), ("append", [(32, b"xyz", 0)], 0), ("delete", [(4, b"", 5)], 0),
        ("same-length", [(0, b"ABCD", 4)], 0), ("longer", [(8, b"0123456789", 2)], 0), ("shorter", [(8, b"0", 9)], 1),
        ("several", [(0, b"A", 1), (3, b"in", 0), (9, b"", 4), (20, b"tail of it", 12)], 1), ("deleted-node", [(1, b"Z", 1)], 2),
        ("two-byte-lengths", [(2, b"w" * 300, 1)], 0),
    ]
    for word, changes, flags in cases:
        for versioned in (0, 1) if word in ("same-length", "deleted-node") else (0,):
            def make(size, changes=changes, flags=flags, versioned=versioned):
                page = Page(40, [Node(KEYS[0], b"first"), Node(KEYS[1], old, flags)])
                return ([page], transaction(replace_d(40, 1, old, changes, size > 8192, versioned)),
                        [changed(page, 1, set_flags=versioned, data=apply(old, changes))])
            both(f"replace-difference-{word}" + ("-versioned" if versioned else ""), rule, make)


def deletes():
    rule = "ErrNDFlagDelete sets deleted, and versioned if the record's flag says so; nothing is cleared"
    for flags in (0, 1, 2, 4, 5):
        for versioned in (0, 1):
            def make(_, flags=flags, versioned=versioned):
                page = squeezed((0, flags & 3, 0)) if flags & 4 else leaf((0, flags, 0))
                return ([page], transaction(flag_delete(40, 1, versioned)), [changed(page, 1, set_flags=DELETED | versioned)])
            both(f"flag-delete-{named(flags)}" + ("-versioned" if versioned else ""), rule, make)
    for line in (0, 1, 2):
        for flags in (0, 2, 3):
            page = leaf((flags, flags, flags))
            after = dirty(page)
            del after.nodes[line]
            vector(f"delete-line-{line}-{named(flags)}", "ErrNDDelete removes the line; other lines keep their flags", [page],
                   transaction(node_part(35, 40, line)), [after])
    page = Page(40, [Node(KEYS[0][4:], b"x", 2, 4)], head=HEAD)
    after = dirty(page)
    after.nodes = []
    vector("delete-last-node", "ErrNDDelete leaves the prefix and the page flags", [page], transaction(node_part(35, 40, 0)), [after])


def deltas():
    rule = "ErrNDDelta adds to the little-endian number at the offset, wraps around, and sets versioned by the record's flag"
    start = (5).to_bytes(4, "little") + (2**32 - 1).to_bytes(4, "little") + (2**31 - 1).to_bytes(4, "little")
    for value, offset in ((1, 0), (-5, 0), (1, 4), (1, 8), (-7, 0)):
        for versioned in (0, 1):
            def make(_, value=value, offset=offset, versioned=versioned):
                page = Page(40, [Node(KEYS[0], start, 0)], flags=LEAF | LONG_VALUE)
                number = (int.from_bytes(start[offset : offset + 4], "little") + value) % 2**32
                data = start[:offset] + number.to_bytes(4, "little") + start[offset + 4 :]
                return ([page], transaction(delta(40, 0, KEYS[0], value, offset, versioned=versioned)),
                        [changed(page, 0, set_flags=versioned, data=data)])
            name = f"delta-{value}-at-{offset}".replace("--", "-minus-")
            both(name + ("-versioned" if versioned else ""), rule, make)
    for value in (1, -6, 2**40):
        page = Page(40, [Node(KEYS[0], start, VERSIONED)], flags=LEAF)
        number = (int.from_bytes(start[:8], "little") + value) % 2**64
        vector(f"delta64-{value}".replace("--", "-minus-"), rule, [page], transaction(delta(40, 0, KEYS[0], value, 0, True, 1)),
               [changed(page, 0, data=number.to_bytes(8, "little") + start[8:])])


def undos():
    rule = "ErrVERIUndo…Physical: insert sets deleted, flag delete clears it, replace restores the data, delta subtracts; no versioned flag"
    key, last = b"\x7f\x80\x00\x00\x28", AFTER + 1
    again = lambda operation, line, k: undo(40, line, k, operation, last, AFTER)
    page = inserted(leaf(), 2, Node(key, b"new", VERSIONED))
    vector("undo-insert", rule, [leaf()], transaction(insert(40, 2, b"", key, b"new", 1), again(1, 2, key)),
           [changed(page, 2, last, set_flags=DELETED)])
    vector("undo-replace", rule, [leaf()], transaction(replace(40, 1, b"data1", b"something else", 1), again(2, 1, KEYS[1])),
           [changed(leaf(), 1, last, set_flags=VERSIONED)])
    vector("undo-replace-of-deleted-node", "the restored node keeps its flags", [leaf((0, 2, 0))],
           transaction(replace(40, 1, b"data1", b"x", 1), again(2, 1, KEYS[1])),
           [changed(leaf((0, 2, 0)), 1, last, set_flags=VERSIONED)])
    vector("undo-flag-delete", rule, [leaf()], transaction(flag_delete(40, 1, 1), again(3, 1, KEYS[1])),
           [changed(leaf(), 1, last, set_flags=VERSIONED)])
    vector("undo-flag-insert", "a flag insert is undone as an insert", [leaf((0, 2, 0))],
           transaction(flag_insert(40, 1, KEYS[1], b"data1", 1), again(1, 1, KEYS[1])),
           [changed(leaf((0, 2, 0)), 1, last, set_flags=VERSIONED)])
    counter = Page(40, [Node(KEYS[0], (9).to_bytes(4, "little"))])
    vector("undo-delta", rule, [counter], transaction(delta(40, 0, KEYS[0], 4, 0, versioned=1), again(4, 0, KEYS[0])),
           [changed(counter, 0, last, set_flags=VERSIONED)])
    wide = Page(40, [Node(KEYS[0], (9).to_bytes(8, "little"))])
    vector("undo-delta64", rule, [wide], transaction(delta(40, 0, KEYS[0], -4, 0, True, 1), again(9, 0, KEYS[0])),
           [changed(wide, 0, last, set_flags=VERSIONED)])
    for operation, word in ((2, "replace"), (3, "flag-delete")):
        vector(f"undo-info-{word}", "UndoInfo creates a version; the page does not change, not even its time", [leaf()],
               transaction(undo_info(40, 1, KEYS[1], operation, b"data1" if operation == 2 else b"")), [leaf()])


def headers_of_pages():
    rule = "SetExternalHeader replaces tag 0; nodes do not change"
    def outcome(page, data):
        after = dirty(page)
        after.head = data
        return after
    root = Page(FDP, [Node(KEYS[0], b"x")], flags=ROOT | LEAF, head=struct.pack("<IIII", 1, 1, 0, 0))
    for data, word in ((struct.pack("<IIII", 4, 1, 1, 50), "16"), (b"\1" + struct.pack("<IIII", 4, 1, 1, 50), "17"),
                       (b"\3" + struct.pack("<IIIIQ", 4, 1, 1, 50, 99), "25")):
        both(f"external-header-{word}-bytes", rule, lambda _, data=data: (
            [root], transaction(set_header(FDP, data)), [outcome(root, data)]))
    space = Page(34, [Node(b"\0\0\0\x2d", b"\4\0\0\0")], flags=ROOT | LEAF | SPACE, head=bytes(16))
    vector("external-header-split-buffer", rule, [space], transaction(set_header(34, b"\x2d\0\0\0\2\0\0\0" + bytes(8), flags=12)),
           [outcome(space, b"\x2d\0\0\0\2\0\0\0" + bytes(8))])
    vector("external-header-longer-prefix", rule, [squeezed()], transaction(set_header(40, HEAD + b"\x99")),
           [outcome(squeezed(), HEAD + b"\x99")])
    vector("external-header-too-short", "ErrNDValidateSetExternalHeader: a prefix that nodes need cannot be cut off", [squeezed()],
           transaction(set_header(40, HEAD[:2])), [squeezed()], error=-626)


def new_pages():
    rule = "ErrLGRIRedoNewPage: no lines, no tag, flags new format and pre-init, whatever the page was"
    fresh = lambda number=41: Page(number, flags=PRE_INIT, time=AFTER)
    both("new-page-over-zeros", rule, lambda _: ([], transaction(new_page(41)), [fresh()]))
    both("new-page-over-older-page", rule, lambda _: ([leaf(number=41)], transaction(new_page(41)), [fresh()]))
    vector("new-page-already-there", "a page with the time of the record or a later one is left alone", [leaf(number=41, time=AFTER)],
           transaction(new_page(41)), [leaf(number=41, time=AFTER)])
    vector("new-page-over-shrunk-page", "ErrLGIAccessPage: a page that a shrink removed is not initialised, though its time is the highest",
           [Page(41, flags=0, time=SHRUNK, tree=0)], transaction(new_page(41)), [fresh()])
    vector("new-page-over-reverted-page", "dbtimeRevert is negative, so the page is older than any record",
           [Page(41, flags=0, time=REVERTED, tree=0)], transaction(new_page(41)), [fresh()])


def trees():
    rule = "ErrSPICreateSingle: {pages, parent, 0 or 2 if not unique, bit for each free page, all set above 32 pages}"
    def single(pages, unique=True, flags=0, parent=1):
        bits = 2**32 - 1 if pages > 32 else 2 ** (pages - 1) - 1
        return Page(41, flags=ROOT | LEAF | flags, head=struct.pack("<IIII", pages, parent, 0 if unique else 2, bits), time=AFTER, tree=20)
    for pages in (1, 2, 4, 32, 33, 40):
        both(f"create-single-{pages}", rule, lambda _, pages=pages: ([], transaction(create_single(41, 1, pages)), [single(pages)]))
    vector("create-single-non-unique", rule, [], transaction(create_single(41, FDP, 1, INDEX | NON_UNIQUE, False)),
           [single(1, False, INDEX | NON_UNIQUE, FDP)])
    vector("create-single-over-shrunk-page", "as new-page-over-shrunk-page", [Page(41, flags=0, time=SHRUNK, tree=0)],
           transaction(create_single(41, 1, 1)), [single(1)])
    vector("create-single-already-there", "as new-page-already-there", [leaf(number=41, time=AFTER, tree=20)],
           transaction(create_single(41, 1, 1)), [leaf(number=41, time=AFTER, tree=20)])
    vector("create-single-after-new-page", "the tree's root takes the page that NewPage made", [],
           transaction(new_page(41, 20, AFTER - 1), create_single(41, 1, 1)), [single(1)])

    rule = "ErrLGIRedoFDPPage, SPICreateExtentTree: root, owned and available tree, each with its own split buffer"
    def multiple(pages, unique=True, flags=0):
        root = Page(41, flags=ROOT | LEAF | flags, head=struct.pack("<IIII", pages, 1, 1 if unique else 3, 42), time=AFTER, tree=20)
        key = struct.pack(">I", 41 + pages - 1)
        trees = [root]
        for number, count in ((42, pages), (43, pages - 3)):
            nodes = [Node(key, struct.pack("<I", count))] if count else []
            trees.append(Page(number, nodes, ROOT | LEAF | SPACE | flags, bytes(16), AFTER, tree=20))
        return trees
    for pages in (3, 4, 20):
        both(f"create-multiple-{pages}", rule, lambda _, pages=pages: (
            [], transaction(create_multiple(41, 1, pages)), multiple(pages)))
    vector("create-multiple-non-unique", rule, [], transaction(create_multiple(41, 1, 8, INDEX | NON_UNIQUE, False)),
           multiple(8, False, INDEX | NON_UNIQUE))
    vector("create-multiple-long-values", rule, [], transaction(create_multiple(41, 1, 8, LONG_VALUE)), multiple(8, True, LONG_VALUE))
    vector("create-multiple-only-root-there", "each of the three pages is judged for itself", [multiple(8)[0]],
           transaction(create_multiple(41, 1, 8)), multiple(8))
    vector("create-multiple-over-shrunk-pages", "as new-page-over-shrunk-page", [Page(n, flags=0, time=SHRUNK, tree=0) for n in (41, 42, 43)],
           transaction(create_multiple(41, 1, 8)), multiple(8))

    rule = "SPIPerformConvert: owned has both extents, available the secondary less 2 and the free pages of the primary"
    def extents(primary, bits, first):
        """SPIConvertCalcExtents: runs of free pages of the primary extent."""
        free = [first + 1 + i for i in range(32) if bits >> i & 1]
        if primary - 1 > 32:
            free += list(range(first + 33, first + primary))
        runs = []
        for number in sorted(free):
            if runs and runs[-1][0] == number - 1:
                runs[-1] = (number, runs[-1][1] + 1)
            else:
                runs.append((number, 1))
        return runs
    def converted(name, primary, bits, secondary, owned, unique=True, head=None, first=40):
        word = 0 if unique else 2
        flags = 0 if unique else INDEX | NON_UNIQUE
        data = struct.pack("<IIII", primary, 1, word, bits)
        root = Page(first, [Node(KEYS[0], b"x")], flags=ROOT | LEAF | flags, head=head(data) if head else data)
        after = dirty(root)
        data = struct.pack("<IIII", primary, 1, word | 1, owned)
        after.head = head(data) if head else data
        make = lambda number, pairs: Page(number, [Node(struct.pack(">I", k), struct.pack("<I", n)) for k, n in sorted(pairs)],
                                          ROOT | LEAF | SPACE | flags, bytes(16), AFTER)
        last = owned + secondary - 1
        spare = [(last, secondary - 2)] if secondary > 2 else []
        vector(name, rule, [root], transaction(convert(first, owned, 1, primary, secondary, bits, flags | NEW_FORMAT, unique)), [
            after, make(owned, [(first + primary - 1, primary), (last, secondary)]), make(owned + 1, spare + extents(primary, bits, first))])
    converted("convert-no-free-page", 4, 0, 6, 50)
    converted("convert-all-free", 4, 0b111, 6, 50)
    converted("convert-holes", 8, 0b1011001, 6, 50)
    converted("convert-secondary-of-two", 4, 0b100, 2, 50)
    converted("convert-secondary-before-primary", 4, 0b111, 6, 33)
    converted("convert-non-unique", 4, 0b010, 6, 50, False)
    converted("convert-more-than-33-pages", 36, 0xFFFFFFFF, 6, 80)
    converted("convert-more-than-33-pages-holes", 36, 0x7FFFFFF0, 6, 80)
    converted("convert-keeps-other-root-fields", 4, 0b111, 6, 50, head=lambda d: b"\3" + d + struct.pack("<Q", 77))


def splits():
    keys = [bytes([0x7F, 0x80, 0, i]) for i in (1, 2, 3, 4)]
    nodes = [Node(k, b"row%d" % i) for i, k in enumerate(keys)]
    new_key = bytes([0x7F, 0x80, 0, 5])
    separator = bytes([0x7F, 0x80, 0, 3])
    child = lambda number: struct.pack("<I", number)

    def parent(entries, number=FDP, flags=ROOT | PARENT):
        return Page(number, [Node(k, child(p)) for k, p in entries], flags=flags, head=bytes(16) if flags & ROOT else b"")

    rule = "BTIPerformSplit, vertical: all nodes move to the new page, the root keeps one entry without a key"
    for unique in (True, False):
        kind = 0 if unique else INDEX | NON_UNIQUE
        root = Page(FDP, nodes, ROOT | LEAF | kind, bytes(16))
        after = dirty(root)
        after.flags = ROOT | PARENT | kind | NEW_FORMAT
        after.nodes = [Node(b"", child(41))]
        vector("split-vertical" + ("" if unique else "-non-unique"), rule, [root], macro(
            split(FDP, 41, kind=0, operation=0, split_line=0, lines=4, new_flags=LEAF | kind | NEW_FORMAT,
                  split_flags=ROOT | PARENT | kind | NEW_FORMAT)),
            [after, Page(41, nodes, LEAF | kind, time=AFTER)])
    root = Page(FDP, nodes, ROOT | LEAF, bytes(16))
    after = dirty(root)
    after.flags, after.nodes = ROOT | PARENT | NEW_FORMAT, [Node(b"", child(41))]
    for versioned in (0, 1):
        vector("split-vertical-insert" + ("-versioned" if versioned else ""), "the operation of a split inserts into the new page; "
               "ErrNDFlagVersion sets versioned on leaves", [root], macro(
                   split(FDP, 41, kind=0, line=4, split_line=0, lines=5, split_flags=ROOT | PARENT | NEW_FORMAT),
                   insert(FDP, 4, b"", new_key, b"new", versioned, before=NIL)),
               [after, Page(41, nodes + [Node(new_key, b"new", versioned)], time=AFTER)])
    flagged = [Node(k, b"row%d" % i, f) for i, (k, f) in enumerate(zip(keys, (0, 1, 2, 3)))]
    root2 = Page(FDP, flagged, ROOT | LEAF, bytes(16))
    vector("split-vertical-keeps-node-flags", "nodes that move keep versioned and deleted", [root2], macro(
        split(FDP, 41, kind=0, operation=0, split_line=0, lines=4, split_flags=ROOT | PARENT | NEW_FORMAT)),
        [after, Page(41, flagged, time=AFTER)])
    vector("split-vertical-new-prefix", "NDSetPrefix: the key of the prefix line becomes the prefix of the new page", [root], macro(
        split(FDP, 41, kind=0, operation=0, split_line=0, lines=4, split_flags=ROOT | PARENT | NEW_FORMAT, prefixes=(-1, 1))),
        [after, Page(41, [Node(k[3:], n.data, 0, 3) if k != keys[1] else Node(b"", n.data, 0, 4) for k, n in zip(keys, nodes)],
                     head=keys[1], time=AFTER)])

    # Right split of leaf 40 between 39 and 42; new page 41; parent 32.
    rule = "BTISplitMoveNodes, right: lines from the split line move; siblings and the parent's entries follow"
    entries = [(b"\x60", 39), (b"\x7f\x90", 40), (b"", 42)]
    after_parent = dirty(parent(entries))
    after_parent.nodes = [Node(b"\x60", child(39)), Node(separator, child(40)), Node(b"\x7f\x90", child(41)), Node(b"", child(42))]
    right = Page(42, [Node(b"\x7f\xa0", b"z")], links=(40, 0))
    after_right = dirty(right)
    after_right.links = (41, 0)
    source = Page(40, nodes, links=(39, 42))

    def halves(left, moved, **more):
        a, b = dirty(source), Page(41, moved, time=AFTER, links=(40, 42), **more)
        a.nodes, a.links = [n.copy() for n in left], (39, 41)
        return [a, b, after_right, after_parent]
    before = [source, right, parent(entries)]
    level = split(FDP, 0, operation=0, kind=0)
    common_args = dict(right=42, parent=FDP, key=separator, image=source.without_gap())
    vector("split-right-none", rule, before, macro(level, split(40, 41, operation=0, split_line=2, lines=4, **common_args)),
           halves(nodes[:2], nodes[2:]))
    for versioned in (0, 1):
        suffix = "-versioned" if versioned else ""
        vector("split-right-insert-right" + suffix, rule, before, macro(
            level, split(40, 41, line=4, split_line=2, lines=5, **common_args), insert(40, 4, b"", new_key, b"new", versioned, before=NIL)),
            halves(nodes[:2], nodes[2:] + [Node(new_key, b"new", versioned)]))
        early = bytes([0x7F, 0x80, 0, 1, 1])
        vector("split-right-insert-left" + suffix, rule, before, macro(
            level, split(40, 41, line=1, split_line=3, lines=5, **common_args), insert(40, 1, b"", early, b"new", versioned, before=NIL)),
            halves([nodes[0], Node(early, b"new", versioned), nodes[1]], nodes[2:]))
        for flags in (0, 1):
            old = [n.copy() for n in nodes]
            old[3].flags = old[0].flags = flags
            origin = Page(40, old, links=(39, 42))
            data = dict(common_args, image=origin.without_gap())
            tag = f"-{named(flags)}" + suffix
            vector("split-right-replace-right" + tag, "a node that moves keeps its flags; versioned as in the record",
                   [origin, right, parent(entries)],
                   macro(level, split(40, 41, operation=2, line=3, split_line=2, lines=4, **data),
                         replace(40, 3, b"row3", b"row3 longer", versioned, before=NIL)),
                   halves(old[:2], [old[2], Node(keys[3], b"row3 longer", flags | versioned)]))
            vector("split-right-replace-left" + tag, "BTISplitMoveNodes inserts a replaced node that stays again: its old flags are lost",
                   [origin, right, parent(entries)],
                   macro(level, split(40, 41, operation=2, line=0, split_line=2, lines=4, **data),
                         replace(40, 0, b"row0", b"row0 longer", versioned, before=NIL)),
                   halves([Node(keys[0], b"row0 longer", versioned), old[1]], old[2:]))
        for flags in (2, 3):
            old = [n.copy() for n in nodes]
            old[3].flags = old[0].flags = flags
            origin = Page(40, old, links=(39, 42))
            data = dict(common_args, image=origin.without_gap())
            tag = f"-{named(flags)}" + suffix
            vector("split-right-flag-insert-right" + tag, "NDResetFlagDelete clears deleted on the new page",
                   [origin, right, parent(entries)],
                   macro(level, split(40, 41, operation=3, line=3, split_line=2, lines=4, **data),
                         flag_insert_data(40, 3, keys[3], b"row3 longer", versioned, before=NIL)),
                   halves([old[0], old[1]], [old[2], Node(keys[3], b"row3 longer", flags & 1 | versioned)]))
            vector("split-right-flag-insert-left" + tag, "the node that stays loses all old flags",
                   [origin, right, parent(entries)],
                   macro(level, split(40, 41, operation=3, line=0, split_line=2, lines=4, **data),
                         flag_insert_data(40, 0, keys[0], b"row0 longer", versioned, before=NIL)),
                   halves([Node(keys[0], b"row0 longer", versioned), old[1]], old[2:]))
    whole = dict(common_args, image=source.image(4096)[0])
    vector("split-right-whole-image", "a before-image can have the whole page", [halves(nodes[:2], nodes[2:])[0], right, parent(entries)],
           macro(level, split(40, 41, operation=0, split_line=2, lines=4, **whole)), halves(nodes[:2], nodes[2:]))
    vector("split-right-source-already-written", "the before-image makes the new page if only the source was written", [
        halves(nodes[:2], nodes[2:])[0], right, parent(entries)],
        macro(level, split(40, 41, operation=0, split_line=2, lines=4, **common_args)), halves(nodes[:2], nodes[2:]))
    uncommitted = halves(nodes[:2], nodes[2:])
    uncommitted[0].free, uncommitted[1].free = 3, 7
    vector("split-right-uncommitted-free", "a split sets the uncommitted free bytes of both leaves", before,
           macro(level, split(40, 41, operation=0, split_line=2, lines=4, free=(3, 7), **common_args)), uncommitted)
    prefix = keys[0]
    short = Page(40, [Node(k[3:], n.data, 0, 3) if k != prefix else Node(b"", n.data, 0, 4) for k, n in zip(keys, nodes)],
                 head=prefix, links=(39, 42))
    moved = dict(common_args, image=short.without_gap())
    left_half = dirty(short)
    left_half.head, left_half.links = b"", (39, 41)
    left_half.nodes = [n.copy() for n in nodes[:2]]
    vector("split-right-removes-prefix", "BTISplitSetPrefixInSrcPage: without a new prefix the keys are stored whole",
           [short, right, parent(entries)],
           macro(level, split(40, 41, operation=0, split_line=2, lines=4, old=prefix, **moved)),
           [left_half, Page(41, nodes[2:], time=AFTER, links=(40, 42)), after_right, after_parent])
    left_half = dirty(source)
    left_half.head, left_half.links = keys[1], (39, 41)
    left_half.nodes = [Node(keys[0][3:], b"row0", 0, 3), Node(b"", b"row1", 0, 4)]
    vector("split-right-sets-prefixes", "each half gets the prefix that the record names", before,
           macro(level, split(40, 41, operation=0, split_line=2, lines=4, prefixes=(1, 0), fresh=keys[1], **common_args)),
           [left_half, Page(41, [Node(b"", b"row2", 0, 4), Node(keys[3][3:], b"row3", 0, 3)], head=keys[2], time=AFTER, links=(40, 42)),
            after_right, after_parent])

    # Append after the last leaf.
    entries = [(b"\x60", 39), (b"", 40)]
    last = Page(40, nodes, links=(39, 0))
    after_parent = dirty(parent(entries))
    after_parent.nodes = [Node(b"\x60", child(39)), Node(new_key, child(40)), Node(b"", child(41))]
    a = dirty(last)
    a.links = (39, 41)
    for versioned in (0, 1):
        for image in (-1, 0):
            node = Node(new_key, b"new", versioned) if image < 0 else Node(b"", b"new", versioned, 4)
            vector("split-append" + ("-prefix" if image == 0 else "") + ("-versioned" if versioned else ""),
                   "append: the new page has only the inserted node; no before-image is needed", [last, parent(entries)],
                   macro(split(FDP, 0, operation=0, kind=0),
                         split(40, 41, parent=FDP, kind=2, line=4, split_line=4, lines=5, key=new_key, prefixes=(-1, image)),
                         insert(40, 4, b"", new_key, b"new", versioned, before=NIL)),
                   [a, Page(41, [node], head=new_key if image == 0 else b"", time=AFTER, links=(40, 0)), after_parent])
    vector("split-append-source-already-written", "the new page of an append does not need the source", [a, parent(entries)],
           macro(split(FDP, 0, operation=0, kind=0), split(40, 41, parent=FDP, kind=2, line=4, split_line=4, lines=5, key=new_key),
                 insert(40, 4, b"", new_key, b"new", before=NIL)),
           [a, Page(41, [Node(new_key, b"new")], time=AFTER, links=(40, 0)), after_parent])
    vector("split-append-already-there", "a macro whose pages have its time changes nothing", [
        a, Page(41, [Node(new_key, b"new")], time=AFTER, links=(40, 0)), after_parent],
        macro(split(FDP, 0, operation=0, kind=0), split(40, 41, parent=FDP, kind=2, line=4, split_line=4, lines=5, key=new_key),
              insert(40, 4, b"", new_key, b"new", before=NIL)),
        [a, Page(41, [Node(new_key, b"new")], time=AFTER, links=(40, 0)), after_parent])
    vector("split-over-shrunk-page", "as new-page-over-shrunk-page", [last, parent(entries), Page(41, flags=0, time=SHRUNK, tree=0)],
           macro(split(FDP, 0, operation=0, kind=0), split(40, 41, parent=FDP, kind=2, line=4, split_line=4, lines=5, key=new_key),
                 insert(40, 4, b"", new_key, b"new", before=NIL)),
           [a, Page(41, [Node(new_key, b"new")], time=AFTER, links=(40, 0)), after_parent])
    vector("split-aborted-macro", "records of a macro that ends with MacroAbort have no effect", [last, parent(entries)],
           transaction(struct.pack("<BHQ", 11, SESSION, AFTER), split(40, 41, parent=FDP, kind=2, line=4, split_line=4, lines=5, key=new_key),
                       insert(40, 4, b"", new_key, b"new", before=NIL), struct.pack("<BHQ", 13, SESSION, AFTER)),
           [last, parent(entries)])


def merges():
    keys = [bytes([0x50, i]) for i in range(1, 7)]
    child = lambda number: struct.pack("<I", number)
    parent = lambda entries, number=FDP, flags=ROOT | PARENT: Page(number, [Node(k, child(p)) for k, p in entries], flags=flags,
                                                                   head=bytes(16) if flags & ROOT else b"")
    left = Page(39, [Node(b"\x40", b"l")], links=(0, 40))
    source = Page(40, [Node(keys[0], b"a", 1), Node(keys[1], b"b", 2), Node(keys[2], b"c")], links=(39, 41))
    right = Page(41, [Node(b"\x60", b"r")], links=(40, 0))
    entries = [(b"\x48", 39), (b"\x58", 40), (b"", 41)]
    before = [left, source, right, parent(entries)]

    def outcome(left_nodes=None, source_nodes=None, right_nodes=None, parents=None, gone=True):
        a, b, c, d = (dirty(p) for p in before)
        if gone:
            emptied(b)
            a.links, c.links = (0, 41), (39, 0)
        elif source_nodes is not None:
            b.nodes = source_nodes
        if left_nodes is not None:
            a.nodes = left_nodes
        if right_nodes is not None:
            c.nodes = right_nodes
        d.nodes = [Node(k, child(p)) for k, p in parents]
        return [a, b, c, d]
    level = lambda line, flags: merge(FDP, line=line, flags=flags, kind=0)
    links = dict(left=39, right=41, parent=FDP)
    rule = "BTIPerformOneMerge, empty page: siblings are linked, the parent loses the entry, the page is flagged empty"
    vector("merge-empty-page", rule, before, macro(level(1, 2), merge(40, flags=4, kind=1, **links)),
           outcome(parents=[entries[0], entries[2]]))
    rule = "BTIMergeMoveNodes, full right: deleted nodes are dropped, others move with their flags to the start of the right page"
    moved = [Node(keys[0], b"a", 1), Node(keys[2], b"c")]
    vector("merge-full-right", rule, before, macro(level(1, 2), merge(40, flags=4, kind=2, image=source.without_gap(), **links)),
           outcome(right_nodes=moved + right.nodes, parents=[entries[0], entries[2]]))
    both_gone = outcome(right_nodes=moved + right.nodes, parents=[entries[0], entries[2]])
    vector("merge-full-right-source-already-written", "the before-image gives the nodes if only the source was written",
           [left, both_gone[1], right, parent(entries)],
           macro(level(1, 2), merge(40, flags=4, kind=2, image=source.without_gap(), **links)), both_gone)
    rule = "partial right: nodes from the merge line move, the parent's key of the source becomes the separator"
    two = dict(right=41, parent=FDP, left=0)
    a = outcome(source_nodes=source.nodes[:1], right_nodes=[Node(keys[2], b"c")] + right.nodes,
                parents=[entries[0], (keys[1], 40), entries[2]], gone=False)
    vector("merge-partial-right", rule, before[1:], macro(
        level(1, 1), merge(40, kind=3, first=1, separator=keys[1], image=source.without_gap(), **two)), a[1:])
    free = [p.copy() for p in a]
    free[2].free = 9
    vector("merge-partial-right-uncommitted-free", "a merge sets the uncommitted free bytes of the target", before[1:], macro(
        level(1, 1), merge(40, kind=3, first=1, separator=keys[1], free=9, image=source.without_gap(), **two)), free[1:])
    rule = "full left: the nodes move to the end of the left page; the entry of the source gets the left page, the left entry goes"
    vector("merge-full-left", rule, before, macro(
        level(1, 3), merge(40, flags=4, kind=5, first=2, image=source.without_gap(), **links)),
        outcome(left_nodes=left.nodes + moved, parents=[(b"\x58", 39), entries[2]]))
    rule = "partial left: nodes up to the merge line move, the parent's key of the left page becomes the separator"
    a = outcome(source_nodes=source.nodes[2:], left_nodes=left.nodes + [Node(keys[0], b"a", 1)],
                parents=[(keys[2], 39), entries[1], entries[2]], gone=False)
    vector("merge-partial-left", rule, [before[0], before[1], before[3]], macro(
        level(1, 1), merge(40, kind=6, first=1, left=39, parent=FDP, separator=keys[2], image=source.without_gap())), [a[0], a[1], a[3]])
    last = Page(41, [Node(b"\x60", b"r", 2)], links=(40, 0))
    middle = Page(40, [Node(keys[0], b"a")], links=(0, 41))
    a, b, c = dirty(middle), emptied(dirty(last)), dirty(parent([(b"\x58", 40), (b"", 41)]))
    a.links, c.nodes = (0, 0), [Node(b"", child(40))]
    vector("merge-empty-last-page", "BTIChangeKeyOfPagePointer: the entry before a removed last entry loses its key",
           [middle, last, parent([(b"\x58", 40), (b"", 41)])],
           macro(level(1, 2), merge(41, flags=4, kind=1, left=40, parent=FDP)), [a, b, c])
    inner = Page(43, [Node(b"\x58", child(40))], flags=PARENT)
    top = Page(FDP, [Node(b"\x58", child(43)), Node(b"", child(44))], flags=ROOT, head=bytes(16))
    alone = Page(40, [Node(keys[0], b"a", 2)], links=(0, 41))
    a, b, c, d = dirty(top), emptied(dirty(inner)), emptied(dirty(alone)), dirty(right)
    a.nodes, d.links = [Node(b"", child(44))], (0, 0)
    vector("merge-empty-inner-page", "an internal page that loses its only entry is flagged empty, too", [top, inner, alone, right],
           macro(merge(FDP, line=0, flags=2, kind=0), merge(43, flags=4, kind=0, parent=FDP),
                 merge(40, flags=4, kind=1, right=41, parent=43)), [a, b, c, d])


def moves():
    child = lambda number: struct.pack("<I", number)
    left, right = Page(39, [Node(b"\x40", b"l")], links=(0, 40)), Page(41, [Node(b"\x60", b"r")], links=(40, 0))
    source = Page(40, [Node(b"\x01", b"a", 1, 3), Node(b"\x02", b"b", 2, 3)], head=b"\x50\x51\x52", links=(39, 41))
    above = Page(FDP, [Node(b"\x48", child(39)), Node(b"\x58", child(40)), Node(b"", child(41))], flags=ROOT | PARENT, head=bytes(16))

    def moved():
        a, b, c, d = dirty(left), emptied(dirty(source)), dirty(right), dirty(above)
        target = dirty(source)
        target.number = 45
        a.links, c.links = (0, 45), (45, 0)
        d.nodes[1].data = child(45)
        return [a, b, c, d, target]
    rule = "BTPerformPageMove: the target gets the source's bytes; siblings and parent point to it; the source is flagged empty"
    both("page-move-leaf", rule, lambda size: (
        [left, source, right, above], transaction(page_move(40, 45, 39, 41, FDP, 1, source, size)), moved()))
    vector("page-move-target-shrunk", "as new-page-over-shrunk-page", [left, source, right, above, Page(45, flags=0, time=SHRUNK, tree=0)],
           transaction(page_move(40, 45, 39, 41, FDP, 1, source, 4096)), moved())
    vector("page-move-source-already-written", "the image of the record gives the bytes if only the source was written",
           [left, moved()[1], right, above], transaction(page_move(40, 45, 39, 41, FDP, 1, source, 4096)), moved())
    vector("page-move-already-there", "pages with the time of the record do not change", moved(),
           transaction(page_move(40, 45, 39, 41, FDP, 1, source, 4096)), moved())
    inner = Page(43, [Node(b"\x58", child(40)), Node(b"", child(41))], flags=PARENT)
    top = Page(FDP, [Node(b"", child(43))], flags=ROOT, head=bytes(16))
    a, b, target = dirty(top), emptied(dirty(inner)), dirty(inner)
    a.nodes[0].data, target.number = child(45), 45
    vector("page-move-internal", "internal pages have no siblings", [top, inner],
           transaction(page_move(43, 45, 0, 0, FDP, 0, inner, 4096)), [a, b, target])

    # The root of tree 9 and its two space trees move from 32, 33, 34 to 45, 46, 47; two catalogs name it.
    root = Page(FDP, [Node(b"\x10", b"x")], ROOT | LEAF, struct.pack("<IIII", 8, 1, 1, 33))
    spaces = [Page(n, [Node(struct.pack(">I", 39), struct.pack("<I", c))], ROOT | LEAF | SPACE, bytes(16)) for n, c in ((33, 8), (34, 5))]
    below = Page(36, [], ROOT | LEAF | LONG_VALUE, struct.pack("<IIII", 1, FDP, 0, 0), tree=10)
    catalogs = [Page(n, [Node(b"\x01", b"before"), Node(b"\x02", b"old 32", 1), Node(b"\x03", b"key 32")], tree=t) for n, t in ((10, 2), (26, 3))]
    record = struct.pack("<BQBIH", 96, AFTER, DATABASE, TREE, SESSION)
    moves = [page_move(p.number, n, 0, 0, 0, 0, p, 4096, f) for p, n, f in ((root, 45, 1), (spaces[0], 46, 2), (spaces[1], 47, 4))]
    children = [set_header(36, struct.pack("<IIII", 1, 45, 0, 0), tree=10, fdp=36)]
    names = [replace(c.number, line, old, new, tree=c.tree, fdp=4 if c.tree == 2 else 24)
             for c in catalogs for line, old, new in ((1, b"old 32", b"new 45"), (2, b"key 32", b"key 45"))]
    gone = [emptied(dirty(p)) for p in (root, *spaces)]
    there = [dirty(p) for p in (root, *spaces)]
    for page, number in zip(there, (45, 46, 47)):
        page.number = number
    there[0].head = struct.pack("<IIII", 8, 1, 1, 46)
    after_below = dirty(below)
    after_below.head = struct.pack("<IIII", 1, 45, 0, 0)
    after_catalogs = [dirty(c) for c in catalogs]
    for c in after_catalogs:
        c.nodes[1].data, c.nodes[2].data = b"new 45", b"key 45"
    rule = "SHKPerformRootMove: three pages move, the root names its new owned tree, children their new parent, both catalogs the new root"
    vector("root-page-move", rule, [root, *spaces, below, *catalogs], macro(record, *moves, *children, *names),
           [*gone, *there, after_below, *after_catalogs])


def empties():
    child = lambda number: struct.pack("<I", number)
    rule = "NDSetEmptyTree: the root loses its only entry and becomes a leaf; NDEmptyPage: listed pages are flagged empty"
    root = Page(FDP, [Node(b"", child(40))], ROOT | PARENT, bytes(16))
    page = squeezed()
    after = dirty(root)
    after.nodes, after.flags = [], ROOT | LEAF | NEW_FORMAT
    both("empty-tree", rule, lambda _: ([root, page], transaction(empty_tree(FDP, [(40, BEFORE)])), [after, emptied(dirty(page))]))
    inner = Page(43, [Node(b"", child(40))], PARENT)
    high = Page(FDP, [Node(b"", child(43))], ROOT, bytes(16))
    vector("empty-tree-two-levels", rule, [high, inner, page], transaction(empty_tree(FDP, [(43, BEFORE), (40, BEFORE)])),
           [after, emptied(dirty(inner)), emptied(dirty(page))])
    vector("empty-tree-only-page-left", "each page is judged for itself", [after, page], transaction(empty_tree(FDP, [(40, BEFORE)])),
           [after, emptied(dirty(page))])


def scrubs():
    rule = "NDScrubOneUsedPage: 'D' over deleted data, 0x20 and 'L' over chunks, versioned cleared, gaps 'Z', scrubbed set"
    for size, suffix in ((4096, ""), (32768, "-32k")):
        page = Page(40, [Node(k[4:], d, f, 4) for k, d, f in zip(KEYS, (b"stays", b"goes away", b"a chunk"), (1, 3, 1))], head=HEAD)
        after = dirty(page)
        after.flags |= SCRUBBED
        after.nodes[1].data, after.nodes[1].flags = b"D" * 9, DELETED | COMPRESSED
        after.nodes[2].data, after.nodes[2].flags = b"\x20" + b"L" * 6, COMPRESSED
        after.fill = ord("Z")
        vector("scrub-used" + suffix, rule, [page], transaction(scrub(40, 0, b"\0\1\2")), [after], size=size)
        after = dirty(page)
        after.nodes, after.fill, after.flags = [], ord("U"), after.flags | SCRUBBED
        vector("scrub-unused" + suffix, "NDScrubOneUnusedPage: lines go, the prefix stays, the rest is 'U', scrubbed is set", [page],
               transaction(scrub(40, 1)), [after], size=size)


def times():
    rule = "FLGNeedRedoCheckDbtimeBefore: a page has the time before the record (redone) or the record's time or a later one (left)"
    key = b"\x7f\x80\x00\x00\x28"
    record = transaction(insert(40, 2, b"", key, b"new"))
    for time, word in ((AFTER, "same"), (AFTER + 5, "later")):
        vector(f"time-{word}", rule, [leaf(time=time)], record, [leaf(time=time)])
    vector("time-too-new", "a page between before and after is an error (JET_errDbTimeTooNew)", [leaf(time=BEFORE + 1)], record,
           [leaf(time=BEFORE + 1)], error=-567)
    vector("time-too-old", "a page older than before lost a write (JET_errDbTimeTooOld)", [leaf(time=BEFORE - 1)], record,
           [leaf(time=BEFORE - 1)], error=-566)
    vector("time-too-old-but-trimmed", "ErrLGRIRedoTrimDB clears the page's entry in the map of pages that are too old", [
        leaf(time=BEFORE - 1)], record + [struct.pack("<BBII", 81, DATABASE, 40, 1)], [])
    vector("zero-page-changed-then-trimmed", "a page that is zero because a later trim was already done is not an error", [],
           record + [struct.pack("<BBII", 81, DATABASE, 40, 1)], [])
    vector("zero-page-changed-then-shrunk", "a shrink clears its pages in both maps, too", [],
           record + [struct.pack("<BBII", 94, DATABASE, 39, 61)], [])
    vector("zero-page-changed-later", "after the required range a zero page is an error at once", [], record, [], error=-1019, later=True)
    vector("time-too-old-later", "after the required range a page that is too old is an error at once", [leaf(time=BEFORE - 1)], record,
           [leaf(time=BEFORE - 1)], error=-566, later=True)
    vector("new-page-later", "after the required range a new page is made without a look at the old one", [leaf(number=41, time=AFTER + 9)],
           transaction(new_page(41)), [Page(41, flags=PRE_INIT, time=AFTER)], later=True)
    vector("zero-page-changed", "a zero page that no later record removes is an error (JET_errPageNotInitialized)", [], record, [],
           error=-1019)


def database_headers():
    rule = "ErrLGRICheckRedoCondition raises objidLast and the dbtime for every record that names a tree, also if its page needs nothing"
    there = [leaf(time=AFTER + 9, tree=60)]
    cases = {
        "insert": insert(40, 0, b"", b"\1", b"x", tree=60), "flag-insert": flag_insert(40, 0, KEYS[0], b"x", tree=60),
        "flag-insert-data": flag_insert_data(40, 0, KEYS[0], b"x", tree=60), "replace": replace(40, 0, b"data0", b"x", tree=60),
        "flag-delete": flag_delete(40, 0, tree=60), "delete": node_part(35, 40, tree=60),
        "external-header": set_header(40, b"", tree=60), "new-page": new_page(40, 60), "create-single": create_single(40, 1, 1, tree=60),
    }
    for word, record in cases.items():
        vector(f"object-id-{word}", rule, there, transaction(record), there, header=["last_object_id=60", f"dbtime>={AFTER:#x}"])
    trees = [Page(n, flags=ROOT | LEAF, time=AFTER + 9, tree=60) for n in (40, 41, 42)]
    vector("object-id-create-multiple", rule, trees, transaction(create_multiple(40, 1, 8, tree=60)), trees,
           header=["last_object_id=60", f"dbtime>={AFTER:#x}"])
    vector("object-id-create-single-redone", rule, [], transaction(create_single(41, 1, 1, tree=60)),
           [Page(41, flags=ROOT | LEAF, head=struct.pack("<IIII", 1, 1, 0, 0), time=AFTER, tree=60)], header=["last_object_id=60"])
    vector("object-id-smaller", "objidLast never falls", there, transaction(insert(40, 0, b"", b"\1", b"x", tree=5)), there,
           header=["last_object_id=30"])
    version = lambda *numbers: struct.pack("<BBIII", 92, DATABASE, *numbers)
    vector("set-version-raises", "ErrDBRedoSetDbVersion sets major, update and minor", [], [version(0x620, 0xB4, 0x190)], [],
           header=["version=0x620,0xb4,0x190", "created=0x620,0x14"])
    vector("set-version-only-raises", "a version that is not newer than the header's is ignored", [],
           [version(0x620, 0xB4, 0x190), version(0x620, 0x14, 0x14)], [], header=["version=0x620,0xb4,0x190"])
    vector("set-version-minor", "versions compare by major, update, minor", [], [version(0x620, 0x14, 0x14)], [],
           header=["version=0x620,0x14,0x14"])
    extend = lambda last: struct.pack("<BIBI", 68, 5, DATABASE, last)
    trim = lambda first, pages: struct.pack("<BBII", 81, DATABASE, first, pages)
    for later in (False, True):
        suffix = "-later" if later else ""
        vector("extend" + suffix, "ErrLGRIRedoExtendDB grows the file and counts the extension", [], [extend(120)], [],
               header=["pages=120", "extended=1"], later=later)
        vector("extend-smaller" + suffix, "JET_bitResizeDatabaseOnlyGrow: the file does not shrink", [], [extend(50)], [],
               header=["pages=100"], later=later)
    for kind, more in ((78, b""), (94, b""), (99, struct.pack("<Q", AFTER))):
        record = struct.pack("<BBII", kind, DATABASE, 60, 40) + more
        vector(f"shrink-{kind}-later", "ErrLGRIRedoShrinkDBFileTruncation cuts the file and counts it", [leaf()], [record], [leaf()],
               header=["pages=60", "shrunk=1"], later=True)
        vector(f"shrink-{kind}", "in the required range a database without lgposLastResize keeps its pages", [leaf(number=70)], [record],
               [leaf(number=70)], header=["pages=100", "shrunk=0"])
    vector("trim-later", "ErrLGRIRedoTrimDB zeroes the pages and counts it", [leaf(number=70), leaf(number=72)], [trim(70, 1)],
           [leaf(number=72)], header=["pages=100", "trimmed=1", "zero=70"], later=True)
    vector("trim", "in the required range the pages may be in use again: they stay", [leaf(number=70)], [trim(70, 1)], [leaf(number=70)],
           header=["pages=100", "trimmed=0"])


def hints():
    """Records that change neither pages nor the header."""
    page = [leaf()]
    cases = {
        "macro-info": struct.pack("<BII", 67, 4, 40), "macro-info-2": struct.pack("<BIBII", 73, 9, DATABASE, 1, 40),
        "commit-context": struct.pack("<BIHB", 69, 8, SESSION, 0) + b"hello", "nop": b"\0", "nop-2": struct.pack("<BI", 71, 3) + b"\0\0\0",
        "free-tree": struct.pack("<BIBIIB", 74, 10, DATABASE, 40, 5, 1), "ignored-9": struct.pack("<BI", 75, 2) + b"ab",
        "ignored-10": struct.pack("<BI", 82, 0), "ignored-19": struct.pack("<BI", 91, 1) + b"z",
        "scan-check-2": struct.pack("<BBIBQQI", 98, DATABASE, 40, 1, BEFORE, AFTER, 1), "signal-attach": struct.pack("<BB", 97, DATABASE),
        "extent-freed": struct.pack("<BBIIB", 100, DATABASE, 40, 1, 0), "extent-freed-2": struct.pack("<BBIIBQ", 101, DATABASE, 40, 1, 0, AFTER),
        "page-patch-request": struct.pack("<BBIQ", 66, DATABASE, 40, BEFORE) + bytes(32), "trace": struct.pack("<BHH", 22, SESSION, 3) + b"hey",
        "force-log-rollover": struct.pack("<BHH", 61, SESSION, 1) + b"x", "force-write-log": struct.pack("<BH", 57, SESSION),
        "jet-operation": struct.pack("<BHB", 21, SESSION, 5), "refresh": struct.pack("<BHI", 10, SESSION, 9),
        "re-attach": struct.pack("<BIBQQ", 72, 45, DATABASE, 0, 0) + bytes(28),
    }
    for word, record in cases.items():
        vector(f"hint-{word}", "redo does nothing with a page for this record", page, [record], page)
    for kind, word, length in ((26, "convert", 60), (27, "split", 102), (28, "merge", 88)):
        vector(f"obsolete-{word}", "types that engines before 7.3704 wrote are refused (JET_errBadLogVersion)", page,
               [page_part(kind, 40) + bytes(length - 32)], page, error=-514)


if __name__ == "__main__":
    for part in (inserts, flag_inserts, replaces, deletes, deltas, undos, headers_of_pages, new_pages, trees, splits, merges, moves,
                 empties, scrubs, times, database_headers, hints):
        part()
    sys.stdout.write("\n".join(OUT).lstrip("\n") + "\n")
