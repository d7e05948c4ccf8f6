"""The player of kazoo. player_test.go describes the orders and the news.

Arguments: where the server is, the session timeout in milliseconds.
"""

import os
import queue
import sys
import threading

from kazoo.client import KazooClient
from kazoo.exceptions import LockTimeout

telling = threading.Lock()


def say(*words):
    """Tells a piece of news, whole, whichever thread it comes from."""
    line = " ".join(words) + "\n"
    with telling:
        sys.stdout.write(line)
        sys.stdout.flush()


# How long a reader of the form read-again waits for its turn before it queues up anew.
PATIENCE = 0.03

FORMS = {
    "lock": lambda client, path: client.Lock(path),
    "lock-extra": lambda client, path: client.Lock(path, extra_lock_patterns=["lock-"]),
    "lock-all": lambda client, path: client.Lock(path, extra_lock_patterns=["lock-", "__READ__", "__WRIT__"]),
    "read": lambda client, path: client.ReadLock(path),
    # Before kazoo 2.9 a reader waits for the last writer of all, even if that writer came later and waits for the
    # reader. To get anywhere, such a reader has to give up and queue anew.
    "read-again": lambda client, path: client.ReadLock(path),
    "write": lambda client, path: client.WriteLock(path),
}


class Contender:
    """A session and a lock, in a thread of their own."""

    def __init__(self, name, form, path, addr, timeout):
        self.name, self.form = name, form
        self.orders = queue.Queue()
        self.stopping = threading.Event()
        self.go, self.ok = threading.Semaphore(0), threading.Semaphore(0)
        threading.Thread(target=self.live, args=(path, addr, timeout), daemon=True).start()

    def live(self, path, addr, timeout):
        try:
            self.client = KazooClient(hosts=addr, timeout=timeout / 1000)
            self.client.start()
            self.lock = FORMS[self.form](self.client, path)
        except Exception as e:
            self.fail(e)
            return
        say("opened", self.name, str(self.client.client_id[0]))
        while True:
            order, also = self.orders.get()
            try:
                if order == "run":
                    self.run()
                elif order == "try":
                    self.once(also / 1000)
                else:
                    self.client.stop()
                    self.client.close()
                    say("stopped", self.name)
                    return
            except Exception as e:
                self.fail(e)
                return

    def fail(self, e):
        say("fail", self.name, type(e).__name__, str(e).replace("\n", " "))

    def run(self):
        while not self.stopping.is_set():
            self.acquire()
            self.section()

    def once(self, seconds):
        try:
            got = self.lock.acquire(timeout=seconds)
        except LockTimeout:
            got = False
        if not got:
            say("busy", self.name)
            return
        self.section()
        say("idle", self.name)

    def acquire(self):
        if self.form != "read-again":
            self.lock.acquire()
            return
        while True:
            try:
                if self.lock.acquire(timeout=PATIENCE):
                    return
            except LockTimeout:
                pass

    def section(self):
        say("enter", self.name)
        self.go.acquire()
        say("leave", self.name)
        self.ok.acquire()
        self.lock.release()


def main():
    threading.stack_size(256 << 10)
    addr, timeout = sys.argv[1], int(sys.argv[2])
    contenders = {}
    for line in sys.stdin:
        order, name, *rest = line.split()
        if order == "open":
            form, path = rest
            contenders[name] = Contender(name, form, path, addr, timeout)
            continue
        contender = contenders[name]
        if order == "go":
            contender.go.release()
        elif order == "ok":
            contender.ok.release()
        elif order == "stop":
            contender.stopping.set()
            contender.orders.put(("stop", 0))
        else:
            contender.orders.put((order, int(rest[0]) if rest else 0))
    # Contenders that wait for a lock are left where they are.
    os._exit(0)


main()
