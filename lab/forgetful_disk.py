"""A file system that keeps no more of what was written than it must, over FUSE.

What programs do to it is kept in memory twice: as they see it, and as it would be after a power cut. A file's bytes are
on the disk after `fsync` of the file, names after `fsync` of the directory, all of it after `syncfs`. Of what was changed
since, a power cut leaves any pages, and any of the lengths, permissions, times and names; or, where there is a journal,
those that there were at one moment. A sync that fails brings some of it onto the disk and forgets the
rest; a later one succeeds, while the kernel has the bytes in its cache, until a program has it drop them.

Calls can fail, processes be killed and the power end at any call. Needs root and a loop device: only a file system with
a block device is told of `syncfs` (Linux 6.18 and later).
"""

import ctypes
import errno
import itertools
import os
import signal
import stat
import struct
import subprocess
import tempfile
import threading
import time

PAGE = 4096
ROOT = 1
NAME_MAX = 255
# struct fuse_in_header, and what open files get: what is cached of them stays when they are opened again.
HEADER = struct.Struct("<IIQQIIIi")
KEEP_CACHE = 2
LIBC = ctypes.CDLL(None, use_errno=True)
(LOOKUP, FORGET, GETATTR, SETATTR, READLINK, SYMLINK, MKNOD, MKDIR, UNLINK, RMDIR, RENAME, LINK, OPEN, READ, WRITE, STATFS,
 RELEASE) = (1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18)
FSYNC, FLUSH, INIT, OPENDIR, READDIR, RELEASEDIR, FSYNCDIR = 20, 25, 26, 27, 28, 29, 30
CREATE, INTERRUPT, DESTROY, BATCH_FORGET, FALLOCATE, RENAME2, SYNCFS, TMPFILE = 35, 36, 38, 42, 43, 45, 50, 51
# Calls that change something, by the kind of fault that they have.
KINDS = {
    **dict.fromkeys((CREATE, TMPFILE, MKNOD, MKDIR, SETATTR, SYMLINK, OPEN, FALLOCATE), "call"),
    **dict.fromkeys((UNLINK, RMDIR, RENAME, RENAME2, LINK), "name"),
    WRITE: "write",
    **dict.fromkeys((FSYNC, FSYNCDIR, SYNCFS), "sync"),
}


class Inode:
    """A file, directory or symbolic link, as programs see it, and what of it is on the disk for good."""

    # Numbers of changes, in their order.
    ticks = itertools.count(1)

    def __init__(self, number, mode, now, target=None):
        self.number, self.mode, self.target = number, mode, target
        self.uid = self.gid = 0
        self.modified = self.changed = now
        self.data = bytearray()
        self.names = {}
        # On the disk for good, and since then: writes, and with the numbers of the changes all lengths and all of
        # (mode, modified, changed).
        self.disk, self.disk_names = b"", {}
        self.writes, self.lengths, self.metas = [], [(0, 0)], [self.meta()]

    def meta(self):
        return next(Inode.ticks), (self.mode, self.modified, self.changed)

    def is_directory(self):
        return stat.S_ISDIR(self.mode)

    def note_meta(self, now):
        self.changed = now
        self.metas.append(self.meta())

    def write(self, offset, data, now):
        if len(self.data) < offset + len(data):
            self.data.extend(bytes(offset + len(data) - len(self.data)))
            self.lengths.append((next(Inode.ticks), len(self.data)))
        self.data[offset : offset + len(data)] = data
        self.writes.append((offset, bytes(data)))
        self.modified = now
        self.note_meta(now)

    def set_length(self, length, now):
        kept = len(self.data)
        del self.data[length:]
        self.data.extend(bytes(length - len(self.data)))
        if length < kept:
            self.writes.append((length, bytes(kept - length)))
        self.lengths.append((next(Inode.ticks), length))
        self.modified = now
        self.note_meta(now)

    def is_clean(self):
        return not self.writes and len(self.lengths) == 1 and len(self.metas) == 1

    def sync(self):
        self.disk = bytes(self.data)
        self.writes, self.lengths, self.metas = [], [(0, len(self.data))], [self.meta()]

    def sync_meta(self):
        """Its length, permissions and times, as a journal has them, without its bytes."""
        self.lengths, self.metas = self.lengths[-1:], self.metas[-1:]

    def with_some_pages(self, rng, length):
        """Its bytes with some of those that were not synced, at that length."""
        share = rng.choice([0, 0.5, 0.9, 1])
        data = bytearray(self.disk)
        for offset, written in self.writes:
            at = offset
            while at < offset + len(written):
                end = min(offset + len(written), (at // PAGE + 1) * PAGE)
                if rng.random() < share:
                    data.extend(bytes(max(0, end - len(data))))
                    data[at:end] = written[at - offset : end - offset]
                at = end
        del data[length:]
        data.extend(bytes(length - len(data)))
        return data

    def fail_to_sync(self, rng):
        """Some of its bytes come onto the disk, and the others are forgotten."""
        self.data = self.with_some_pages(rng, len(self.data))
        self.disk, self.writes = bytes(self.data), []

    def lose_power(self, rng, last):
        """What is left; if `last` is given the last length and so on until the change of that number."""

        def one_of(values):
            if last is None:
                return rng.choice([values[-1], rng.choice(values)])[1]
            return max((values[0], *(value for value in values if value[0] <= last)), key=lambda value: value[0])[1]

        self.data = self.with_some_pages(rng, one_of(self.lengths))
        self.mode, self.modified, self.changed = one_of(self.metas)
        self.sync()



class ForgetfulDisk:
    """The file system, mounted at `path`. `faults` has probabilities that calls fail, by their kind: call, name, write,
    sync. `at(calls, what)` lets the power end ("power"), or kills a process (its number), so many calls from now."""

    def __init__(self, path, rng):
        self.path, self.rng = path, rng
        self.inodes = {ROOT: Inode(ROOT, stat.S_IFDIR | 0o755, self.now())}
        self.pending, self.synced = [], 0
        self.next_number = ROOT + 1
        self.faults, self.calls, self.is_off, self.ends = {}, 0, False, None
        # How many calls have failed, or were somebody's last.
        self.struck = 0
        self.listings = []
        # Whether a sync of anything brings all names onto the disk that were changed before, as one journal does.
        self.has_journal = rng.random() < 0.5
        # The clock of files ticks in steps, as the kernel's does [ns].
        self.step = rng.choice([1, 4_000_000, 10_000_000])
        self.lock = threading.Lock()
        inode = self.inodes[ROOT]
        inode.sync()

    # --- What the simulation does to it

    def at(self, calls, what, number=signal.SIGKILL):
        """After so many calls a process has that signal, or the power ends."""
        self.ends = (self.calls + calls, what, number)

    def calm(self):
        """No more faults."""
        with self.lock:
            self.faults, self.ends = {}, None

    def tree(self):
        """Paths, and for each the bytes of a file, the target of a link, or none for a directory."""
        with self.lock:
            found = {}
            self._walk(ROOT, "", found)
            return found

    def _walk(self, number, path, found):
        for name, below in sorted(self.inodes[number].names.items()):
            inode, full = self.inodes[below], path + name
            if inode.is_directory():
                found[full] = None
                self._walk(below, full + "/", found)
            else:
                found[full] = inode.target if inode.target is not None else bytes(inode.data)

    def lose_power(self):
        """What a power cut leaves. It must not be mounted."""
        last = self.rng.randint(self.synced, next(Inode.ticks)) if self.has_journal else None
        self._settle_names(self._surviving(last))
        reached, todo = {ROOT}, [ROOT]
        while todo:
            for below in self.inodes[todo.pop()].disk_names.values():
                if below not in reached:
                    reached.add(below)
                    todo.append(below)
        self.inodes = {number: inode for number, inode in self.inodes.items() if number in reached}
        for inode in self.inodes.values():
            inode.names = dict(inode.disk_names)
            inode.lose_power(self.rng, last)
        self.is_off, self.ends, self.faults = False, None, {}

    def _surviving(self, last):
        if last is not None:
            return [(tick, change) for tick, change in self.pending if tick <= last]
        return [change for change in self.pending if self.rng.random() < 0.5]

    def _settle_names(self, changes):
        for _, change in changes:
            for directory, name, was, number in change:
                names = self.inodes[directory].disk_names
                if number is not None:
                    names[name] = number
                elif names.get(name) == was:
                    del names[name]
        self.pending = []

    def mount(self):
        os.makedirs(self.path, exist_ok=True)
        self.device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        with tempfile.NamedTemporaryFile(prefix="forgetful-") as file:
            file.truncate(1 << 20)
            losetup = ["losetup", "--find", "--show", file.name]
            self.loop = subprocess.run(losetup, check=True, capture_output=True, text=True).stdout.strip()
        options = f"fd={self.device},rootmode=40000,user_id=0,group_id=0,blksize={PAGE}"
        if LIBC.mount(self.loop.encode(), os.fsencode(self.path), b"fuseblk", 0, options.encode()) != 0:
            raise OSError(ctypes.get_errno(), "cannot be mounted")
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def unmount(self):
        for _ in range(200):
            if LIBC.umount2(os.fsencode(self.path), 0) == 0:
                break
            time.sleep(0.01)
        else:
            raise OSError(ctypes.get_errno(), "cannot be unmounted")
        self.thread.join()
        os.close(self.device)
        subprocess.run(["losetup", "--detach", self.loop], check=True)

    # --- What the kernel asks

    def now(self):
        now = time.time_ns()
        return now - now % getattr(self, "step", 1)

    def _serve(self):
        while True:
            try:
                request = os.read(self.device, (1 << 20) + PAGE)
            except OSError as error:
                if error.errno == errno.ENOENT:
                    continue
                return
            _, call, unique, node, _, _, thread, _ = HEADER.unpack_from(request)
            if call in (FORGET, BATCH_FORGET, INTERRUPT):
                continue
            try:
                with self.lock:
                    answer, status = self._answer(call, node, thread, request[HEADER.size :]), 0
            except OSError as error:
                answer, status = b"", -error.errno
            try:
                os.write(self.device, struct.pack("<IiQ", 16 + len(answer), status, unique) + answer)
            except OSError as error:
                if error.errno != errno.ENOENT:
                    raise
            if call == DESTROY:
                return

    def _answer(self, call, node, thread, body):
        kind = KINDS.get(call)
        if kind:
            self.calls += 1
        if self.is_off and call not in (INIT, DESTROY, RELEASE, RELEASEDIR, FLUSH):
            raise OSError(errno.EIO, "off")
        if kind and self.ends and self.calls >= self.ends[0]:
            (_, what, number), self.ends = self.ends, None
            self.struck += 1
            is_done = self.rng.random() < 0.5 or number != signal.SIGKILL
            answer = self._do(call, node, body) if is_done else None
            if what == "power":
                self.is_off = True
            else:
                os.kill(what, number)
            if answer is None or self.is_off:
                raise OSError(errno.EIO, "off")
            return answer
        if kind and self.rng.random() < self.faults.get(kind, 0):
            return self._fail(call, node, body)
        return self._do(call, node, body)

    def _fail(self, call, node, body):
        self.struck += 1
        if call == SYNCFS:
            for inode in self.inodes.values():
                if inode.writes and self.rng.random() < 0.5:
                    inode.fail_to_sync(self.rng)
                elif self.rng.random() < 0.5:
                    inode.sync()
        elif call == FSYNC:
            self.inodes[node].fail_to_sync(self.rng)
        elif call == WRITE and self.rng.random() < 0.5:
            _, offset, size = struct.unpack_from("<QQI", body)
            size = self.rng.randint(0, size)
            self.inodes[node].write(offset, body[40 : 40 + size], self.now())
        raise OSError(errno.ENOSPC if call in (WRITE, CREATE) and self.rng.random() < 0.5 else errno.EIO, "fault")

    def _do(self, call, node, body):
        inode = self.inodes.get(node)
        if call == INIT:
            _, minor, readahead, _ = struct.unpack_from("<IIII", body)
            big_writes, max_pages = 1 << 5, 1 << 22
            return struct.pack("<IIIIHHIIHHIIHH20x", 7, minor, readahead, big_writes | max_pages, 16, 12, 1 << 20, 1, 256, 0, 0, 0, 0, 0)
        if call == LOOKUP:
            return self._entry(self._child(inode, text(body)))
        if call == GETATTR:
            return struct.pack("<QII", 0, 0, 0) + self._attributes(inode)
        if call == SETATTR:
            return self._set(inode, body)
        if call == READLINK:
            return inode.target
        if call == SYMLINK:
            name, target = body.split(b"\0")[:2]
            return self._entry(self._make(inode, os.fsdecode(name), stat.S_IFLNK | 0o777, target))
        if call == MKNOD:
            return self._entry(self._make(inode, text(body[16:]), struct.unpack_from("<I", body)[0]))
        if call == MKDIR:
            return self._entry(self._make(inode, text(body[8:]), stat.S_IFDIR | struct.unpack_from("<I", body)[0]))
        if call in (UNLINK, RMDIR):
            return self._remove(inode, text(body), call == RMDIR)
        if call in (RENAME, RENAME2):
            size, flags = (8, 0) if call == RENAME else (16, struct.unpack_from("<8xI", body)[0])
            old, new = body[size:].split(b"\0")[:2]
            return self._rename(inode, os.fsdecode(old), self.inodes[struct.unpack_from("<Q", body)[0]], os.fsdecode(new), flags)
        if call == LINK:
            of, name = self.inodes[struct.unpack_from("<Q", body)[0]], text(body[8:])
            if name in inode.names:
                raise OSError(errno.EEXIST, "is there")
            self._change((inode, name, None, of))
            of.note_meta(self.now())
            return self._entry(of)
        if call == OPEN:
            return struct.pack("<QIi", 0, KEEP_CACHE, 0)
        if call == OPENDIR:
            # What is read is what it had then, whatever is removed meanwhile.
            self.listings.append([(".", node), ("..", ROOT), *sorted(inode.names.items())])
            return struct.pack("<QIi", len(self.listings) - 1, 0, 0)
        if call in (CREATE, TMPFILE):
            mode = struct.unpack_from("<4xI", body)[0]
            made = self._make(inode, text(body[16:]), mode) if call == CREATE else self._new(mode)
            return self._entry(made) + struct.pack("<QIi", 0, KEEP_CACHE, 0)
        if call == READ:
            _, offset, size = struct.unpack_from("<QQI", body)
            return bytes(inode.data[offset : offset + size])
        if call == WRITE:
            _, offset, size = struct.unpack_from("<QQI", body)
            inode.write(offset, body[40 : 40 + size], self.now())
            return struct.pack("<II", size, 0)
        if call == FALLOCATE:
            _, offset, length, mode = struct.unpack_from("<QQQI", body)
            if mode != 3:
                raise OSError(errno.EOPNOTSUPP, "only holes")
            end = min(offset + length, len(inode.data))
            if offset < end:
                inode.write(offset, bytes(end - offset), self.now())
            return b""
        if call == STATFS:
            return struct.pack("<QQQQQIIII24x", 1 << 24, 1 << 23, 1 << 23, 1 << 20, 1 << 20, PAGE, NAME_MAX, PAGE, 0)
        if call == READDIR:
            return self._list(*struct.unpack_from("<QQI", body))
        if call == SYNCFS:
            for every in self.inodes.values():
                every.sync()
            self._settle_names(self.pending)
            return b""
        if call in (FSYNC, FSYNCDIR):
            inode.sync()
            self._sync_names(inode)
            return b""
        if call in (RELEASE, RELEASEDIR, FLUSH, DESTROY):
            return b""
        raise OSError(errno.ENOSYS, "no such call")

    def _child(self, directory, name):
        if name not in directory.names:
            raise OSError(errno.ENOENT, name)
        return self.inodes[directory.names[name]]

    def _new(self, mode, target=None):
        inode = Inode(self.next_number, mode, self.now(), target)
        self.inodes[inode.number] = inode
        self.next_number += 1
        return inode

    def _make(self, directory, name, mode, target=None):
        if name in directory.names:
            raise OSError(errno.EEXIST, name)
        inode = self._new(mode, target)
        self._change((directory, name, None, inode))
        return inode

    def _change(self, *changes):
        """Changes names, all of them or none: of each the directory, the name, what had it, and what has it now."""
        for directory, name, _, of in changes:
            if of is None:
                del directory.names[name]
            else:
                directory.names[name] = of.number
            directory.modified = self.now()
            directory.note_meta(directory.modified)
        number = lambda inode: inode and inode.number
        change = [(directory.number, name, number(was), number(of)) for directory, name, was, of in changes]
        self.pending.append((next(Inode.ticks), change))

    def _remove(self, directory, name, is_directory):
        inode = self._child(directory, name)
        if is_directory != inode.is_directory():
            raise OSError(errno.ENOTDIR if is_directory else errno.EISDIR, name)
        if inode.names:
            raise OSError(errno.ENOTEMPTY, name)
        self._change((directory, name, inode, None))
        inode.note_meta(self.now())
        return b""

    def _rename(self, of, old, to, new, flags):
        inode, there = self._child(of, old), self.inodes.get(to.names.get(new))
        no_replace, exchange = flags & 1, flags & 2
        if exchange:
            there = self._child(to, new)
            self._change((of, old, None, there), (to, new, None, inode))
            return b""
        if there is inode:
            return b""
        if there:
            if no_replace:
                raise OSError(errno.EEXIST, new)
            if there.is_directory() != inode.is_directory():
                raise OSError(errno.EISDIR if there.is_directory() else errno.ENOTDIR, new)
            if there.names:
                raise OSError(errno.ENOTEMPTY, new)
        self._change((of, old, inode, None), (to, new, None, inode))
        inode.note_meta(self.now())
        return b""

    def _sync_names(self, inode):
        """Names of a directory, or all, are on the disk, and with them what was done to the same directories before."""
        if self.has_journal:
            self.synced = next(Inode.ticks)
            for every in self.inodes.values():
                every.sync_meta()
            return self._settle_names(self.pending)
        wanted, kept = {inode.number}, []
        for change in reversed(self.pending):
            touched = {directory for directory, _, _, _ in change[1]}
            if touched & wanted:
                wanted |= touched
            else:
                kept.append(change)
        kept = kept[::-1]
        self._settle_names([change for change in self.pending if change not in kept])
        self.pending = kept
        return None

    def _set(self, inode, body):
        valid, _, _, size, _, _, modified, _, _, nanos, _, mode, _, uid, gid = struct.unpack_from("<IIQQQQQQIIIIIII", body)
        now = self.now()
        if valid & 8:
            inode.set_length(size, now)
        if valid & 1:
            inode.mode = stat.S_IFMT(inode.mode) | stat.S_IMODE(mode)
        if valid & 2:
            inode.uid = uid
        if valid & 4:
            inode.gid = gid
        if valid & 256:
            inode.modified = now
        elif valid & 32:
            inode.modified = modified * 10**9 + nanos
        inode.note_meta(now)
        return struct.pack("<QII", 0, 0, 0) + self._attributes(inode)

    def _links(self, inode):
        return sum(list(other.names.values()).count(inode.number) for other in self.inodes.values() if other.is_directory())

    def _attributes(self, inode):
        size = len(inode.target) if inode.target is not None else len(inode.data)
        times = [inode.modified, inode.modified, inode.changed]
        seconds, nanos = [ns // 10**9 for ns in times], [ns % 10**9 for ns in times]
        links = 2 if inode.is_directory() else self._links(inode)
        return struct.pack("<6Q10I", inode.number, size, (size + 511) // 512, *seconds, *nanos, inode.mode, links, inode.uid, inode.gid, 0, PAGE, 0)

    def _entry(self, inode):
        return struct.pack("<QQQQII", inode.number, 0, 0, 0, 0, 0) + self._attributes(inode)

    def _list(self, listing, offset, size):
        listed = b""
        for place, (name, number) in list(enumerate(self.listings[listing]))[offset:]:
            raw = os.fsencode(name)
            kind = stat.S_IFMT(self.inodes[number].mode) >> 12
            entry = struct.pack("<QQII", number, place + 1, len(raw), kind) + raw
            entry += bytes(-len(entry) % 8)
            if len(listed) + len(entry) > size:
                break
            listed += entry
        return listed


def text(body):
    return os.fsdecode(body.split(b"\0")[0])
