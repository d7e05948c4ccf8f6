import java.io.IOException;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.recipes.lock.LockListener;
import org.apache.zookeeper.recipes.lock.WriteLock;

/**
 * ZooKeeper's own WriteLock, with a session of the plain client. The player finds this class by its name, so that
 * it works without WriteLock, too.
 */
public final class WriteLocks implements Player.Session {
    /**
     * How long a waiter waits for a grant before it asks again. If a WriteLock's predecessor goes between the listing
     * and the look at the predecessor, the WriteLock returns without a watch, and nothing ever wakes it. So a caller
     * has to ask again.
     */
    private static final long PATIENCE = 100;

    private final ZooKeeper zookeeper;

    /** Returns when there is a session. */
    public WriteLocks(String addr, int timeout) throws IOException, InterruptedException {
        CountDownLatch connected = new CountDownLatch(1);
        zookeeper = new ZooKeeper(addr, timeout, event -> {
            if (event.getState() == KeeperState.SyncConnected) {
                connected.countDown();
            }
        });
        connected.await();
    }

    @Override
    public long id() {
        return zookeeper.getSessionId();
    }

    @Override
    public Player.Lock lock(String form, String path, Runnable revoked) throws InterruptedException, KeeperException {
        for (int end = path.indexOf('/', 1); end > 0; end = path.indexOf('/', end + 1)) {
            try { // a WriteLock makes its directory, but none above it
                zookeeper.create(path.substring(0, end), new byte[0], Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
            } catch (KeeperException.NodeExistsException e) {
                continue;
            }
        }
        return new Lock(path);
    }

    private final class Lock implements Player.Lock {
        private final String path;
        private WriteLock held;

        Lock(String path) {
            this.path = path;
        }

        @Override
        public boolean acquire(long ms) throws KeeperException, InterruptedException {
            long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(ms);
            CountDownLatch acquired = new CountDownLatch(1);
            WriteLock lock = new WriteLock(zookeeper, path, null, new LockListener() {
                @Override
                public void lockAcquired() {
                    acquired.countDown();
                }

                @Override
                public void lockReleased() {}
            });
            while (true) {
                if (lock.lock() || acquired.await(PATIENCE, TimeUnit.MILLISECONDS)) {
                    held = lock;
                    return true;
                }
                if (ms >= 0 && System.nanoTime() >= end) {
                    withdraw(lock);
                    return false;
                }
            }
        }

        @Override
        public void release() {
            withdraw(held);
            held = null;
        }
    }

    /**
     * Leaves the queue, and prevents that the lock queues up anew, as it does when one of its watches fires after the
     * unlock. A contender that has asked several times has armed several watches, and the first one lets it in. A watch
     * and this method exclude each other.
     */
    private static void withdraw(WriteLock lock) {
        synchronized (lock) {
            lock.unlock();
            lock.close(); // does not unlock, and an unlock after it would do nothing
        }
    }

    @Override
    public void revoke(String node) {
        throw new UnsupportedOperationException("revoke");
    }

    @Override
    public void close() throws InterruptedException {
        zookeeper.close();
    }
}
