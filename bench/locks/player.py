"""Answers for kazoo. The questions and answers are described in words.go.

Arguments: where the server is, the session timeout in milliseconds.
"""

import gc
import queue
import socket
import sys
import threading
import time

from kazoo.client import KazooClient
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.recipe.election import Election

counted = [0]


class CountedSocket(socket.socket):
    """A socket that counts what goes over it."""

    __slots__ = ()

    def recv(self, *args):
        data = super().recv(*args)
        counted[0] += len(data)
        return data

    def send(self, *args):
        sent = super().send(*args)
        counted[0] += sent
        return sent


class CountingHandler(SequentialThreadingHandler):
    def create_connection(self, *args, **kwargs):
        sock = super().create_connection(*args, **kwargs)
        sock.__class__ = CountedSocket
        return sock


class Waiter:
    """A contender that has the lock, and is told when to release it."""

    def __init__(self, at=0, failed=None):
        self.at = at
        self.failed = failed
        self.leave = threading.Event()
        self.left = threading.Event()
        self.released = 0


def loop(lock, cycles):
    for _ in range(cycles):
        lock.acquire()
        lock.release()


def memory():
    """What the process has in memory. Only Linux tells."""
    gc.collect()
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * 4096


class Player:
    def __init__(self, addr, timeout):
        self.addr = addr
        self.timeout = timeout
        self.sessions = []
        self.kept = []
        self.kind, self.width = "mutex", 0
        self.path = None
        self.granted = queue.Queue()
        self.holder = None
        self.size = 0

    def open(self, _, n, __):
        for _ in range(n):
            client = KazooClient(hosts=self.addr, timeout=self.timeout / 1000, handler=CountingHandler())
            client.start()
            self.sessions.append(client)
        return []

    def close(self, *_):
        sessions, self.sessions = self.sessions, []
        self.granted, self.path, self.holder, self.kept = queue.Queue(), None, None, []
        self.kind, self.width = "mutex", 0
        for client in sessions:
            client.stop()
            client.close()
        return []

    def use(self, kind, width, _):
        self.kind, self.width = kind, width
        return []

    def lock(self, session, path):
        """A lock of the kind that is used."""
        if self.kind == "mutex":
            return session.Lock(path)
        if self.kind == "semaphore":
            return session.Semaphore(path, max_leases=self.width)
        if self.kind == "election":
            return session.Election(path)
        raise NotImplementedError("not offered by this library")

    def cycle(self, path, n, _):
        lock = self.lock(self.sessions[0], path)
        took = []
        for _ in range(n):
            start = time.perf_counter_ns()
            lock.acquire()
            lock.release()
            took.append(time.perf_counter_ns() - start)
        return took

    def many(self, path, locks, cycles):
        warm, begin = threading.Barrier(locks + 1), threading.Event()
        failed = []

        def work(i):
            try:
                lock = self.sessions[0].Lock("%s-%d" % (path, i))
                loop(lock, 1)
            except Exception as e:
                failed.append(e)
            warm.wait()
            begin.wait()
            try:
                if not failed:
                    loop(lock, cycles)
            except Exception as e:
                failed.append(e)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(locks)]
        for thread in threads:
            thread.start()
        warm.wait()
        start = time.perf_counter_ns()
        begin.set()
        for thread in threads:
            thread.join()
        if failed:
            raise failed[0]
        return [time.perf_counter_ns() - start]

    def fill(self, path, n, _):
        if path != self.path:
            self.path, self.size, self.holder, self.granted = path, 0, None, queue.Queue()
        for _ in range(n):
            lock = self.lock(self.sessions[self.size % len(self.sessions)], path)
            self.size += 1
            threading.Thread(target=self.contend, args=(lock, self.granted), daemon=True).start()
        if self.holder is None:
            self.holder = self.next()
        return []

    @staticmethod
    def contend(lock, granted):
        def hold():
            w = Waiter(at=time.perf_counter_ns())
            granted.put(w)
            w.leave.wait()
            w.released = time.perf_counter_ns()
            w.left.set()

        try:
            if isinstance(lock, Election):
                lock.run(hold)
                return
            lock.acquire()
            hold()
            lock.release()
        except Exception as e:
            # A contender that still waits when its session is closed ends here, and is not asked about any more.
            granted.put(Waiter(failed=e))

    def next(self):
        w = self.granted.get()
        if w.failed:
            raise w.failed
        return w

    def drain(self, _, n, __):
        took = []
        for _ in range(n):
            self.holder.leave.set()
            w = self.next()
            self.holder.left.wait()
            took.append(w.at - self.holder.released)
            self.holder = w
        return took

    def bytes(self, *_):
        return [counted[0]]

    def hold(self, path, n, _):
        before, threads = memory(), threading.active_count()
        for i in range(n):
            lock = self.sessions[0].Lock("%s-%d" % (path, i))
            lock.acquire()
            self.kept.append(lock)
        return [memory() - before, threading.active_count() - threads]


def main():
    threading.stack_size(256 << 10)
    player = Player(sys.argv[1], int(sys.argv[2]))
    offered = ("open", "close", "use", "cycle", "many", "fill", "drain", "bytes", "hold")
    for line in sys.stdin:
        verb, path, n, also = line.split()
        try:
            if verb not in offered:
                raise NotImplementedError("not offered by this library")
            values = getattr(player, verb)(path, int(n), int(also))
            print(" ".join(["ok"] + [str(v) for v in values]), flush=True)
        except Exception as e:
            print("no", type(e).__name__, str(e).replace("\n", " "), flush=True)
    player.close()


main()
