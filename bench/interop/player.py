"""The player of kazoo. player_test.go describes the orders and the answers.

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
    with telling:
        sys.stdout.write(" ".join(words) + "\n")
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
    "election": lambda client, path: Candidate(client.Election(path)),
}


class Candidate:
    """An election as a lock: its leader stays until the release."""

    def __init__(self, election):
        self.election = election

    def acquire(self, timeout):
        if timeout is not None:
            raise NotImplementedError("an election with a timeout")
        self.told, self.left = queue.Queue(), threading.Event()
        threading.Thread(target=self.run, daemon=True).start()
        return self.hear()

    def run(self):
        try:
            self.election.run(self.lead)
            self.told.put(None)
        except Exception as e:
            self.told.put(e)

    def lead(self):
        self.told.put(None)
        self.left.wait()

    def release(self):
        self.left.set()
        self.hear()

    def hear(self):
        error = self.told.get()
        if error:
            raise error
        return True


class Contender:
    """A session and a lock, in a thread of their own."""

    def __init__(self, name, addr, timeout):
        self.orders = queue.Queue()
        self.client = self.lock = self.form = None
        threading.Thread(target=self.live, args=(name, addr, timeout / 1000), daemon=True).start()

    def live(self, name, addr, timeout):
        while True:
            order, *rest = self.orders.get()
            said, text = order, ""
            try:
                if order == "open":
                    self.form, path = rest
                    if self.client is None:
                        self.client = KazooClient(hosts=addr, timeout=timeout)
                        self.client.start()
                    self.lock = FORMS[self.form](self.client, path)
                    text = str(self.client.client_id[0])
                elif order == "acquire":
                    if not self.acquire(int(rest[0]) / 1000):
                        said = "busy"
                elif order == "release":
                    self.lock.release()
                elif order == "close":
                    self.client.stop()
                    self.client.close()
                else:
                    raise NotImplementedError(order)
            except Exception as e:
                said, text = "fail", type(e).__name__ + " " + str(e).replace("\n", " ")
            say(said, name, text)

    def acquire(self, seconds):
        if self.form == "read-again":
            while not self.tries(PATIENCE):
                pass
            return True
        return self.tries(seconds if seconds >= 0 else None)

    def tries(self, seconds):
        try:
            return self.lock.acquire(timeout=seconds)
        except LockTimeout:
            return False


def main():
    threading.stack_size(256 << 10)
    contenders = {}
    for line in sys.stdin:
        order, name, *rest = line.split()
        if name not in contenders:
            contenders[name] = Contender(name, sys.argv[1], int(sys.argv[2]))
        contenders[name].orders.put((order, *rest))
    # Contenders that wait for a lock are left where they are.
    os._exit(0)


main()
