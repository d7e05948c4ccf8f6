import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreMutex;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.locks.PredicateResults;
import org.apache.curator.framework.recipes.locks.Revoker;
import org.apache.curator.framework.recipes.locks.StandardLockInternalsDriver;
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.apache.zookeeper.CreateMode;

/**
 * Runs contenders that use the locks of Apache Curator. player_test.go describes orders and answers.
 *
 * <p>Arguments: where the server is, the session timeout in milliseconds.
 */
public final class Player {
    /** What a contender does with its lock, always from its own thread. */
    interface Lock {
        /** Waits for the lock, at most that many milliseconds, or without end if negative. */
        boolean acquire(long ms) throws Exception;

        void release() throws Exception;

        /** A writer becomes a reader as well. */
        default void shares() throws Exception {
            throw new UnsupportedOperationException("shares");
        }

        /** And then a reader only. */
        default void share() throws Exception {
            throw new UnsupportedOperationException("share");
        }
    }

    /** A session of a library, with locks. */
    interface Session {
        long id() throws Exception;

        /** A lock, which calls revoked whenever it is asked for, if its form can be. */
        Lock lock(String form, String path, Runnable revoked) throws Exception;

        /** Asks the owner of the node to release it. */
        void revoke(String node) throws Exception;

        void close() throws Exception;
    }

    public static void main(String[] args) throws Exception {
        Map<String, BlockingQueue<String[]>> contenders = new HashMap<>();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] order = line.split(" ");
            contenders.computeIfAbsent(order[1], name -> {
                BlockingQueue<String[]> orders = new LinkedBlockingQueue<>();
                Thread thread = new Thread(() -> contend(name, orders, args[0], Integer.parseInt(args[1])), name);
                thread.setDaemon(true);
                thread.start();
                return orders;
            }).add(order);
        }
        System.exit(0); // a contender that waits for a lock is left where it is
    }

    private static void contend(String name, BlockingQueue<String[]> orders, String addr, int timeout) {
        Session session = null;
        Lock lock = null;
        while (true) {
            String said = "fail";
            String text = "";
            try {
                String[] order = orders.take();
                said = order[0];
                switch (order[0]) {
                    case "open":
                        if (session == null) {
                            session = open(order[2], addr, timeout);
                        }
                        lock = session.lock(order[2], order[3], () -> say("revoked", name, ""));
                        text = String.valueOf(session.id());
                        break;
                    case "acquire":
                        if (!lock.acquire(Long.parseLong(order[2]))) {
                            said = "busy";
                        }
                        break;
                    case "shares":
                        lock.shares();
                        break;
                    case "share":
                        lock.share();
                        break;
                    case "release":
                        lock.release();
                        break;
                    case "revoke":
                        session.revoke(order[2]);
                        break;
                    case "close":
                        session.close();
                        break;
                    default:
                        throw new IllegalArgumentException(order[0]);
                }
            } catch (Throwable e) {
                said = "fail";
                text = String.valueOf(e).replace('\n', ' ');
            }
            say(said, name, text);
        }
    }

    /** One write for each line, so that lines of several threads never mix. */
    private static synchronized void say(String word, String name, String text) {
        byte[] line = (word + " " + name + " " + text + "\n").getBytes(StandardCharsets.UTF_8);
        System.out.write(line, 0, line.length);
        System.out.flush();
    }

    private static Session open(String form, String addr, int timeout) throws Exception {
        if (form.equals("writelock")) { // a class of its own, compiled only where there is a WriteLock
            return (Session) Class.forName("WriteLocks").getConstructor(String.class, int.class).newInstance(addr, timeout);
        }
        CuratorFramework client = CuratorFrameworkFactory.builder()
                .connectString(addr)
                .sessionTimeoutMs(timeout)
                .connectionTimeoutMs(timeout)
                .retryPolicy(new ExponentialBackoffRetry(1000, 3))
                .build();
        client.start();
        client.blockUntilConnected();
        return new Curator(client);
    }

    private static final class Curator implements Session {
        private final CuratorFramework client;

        Curator(CuratorFramework client) {
            this.client = client;
        }

        @Override
        public long id() throws Exception {
            return client.getZookeeperClient().getZooKeeper().getSessionId();
        }

        @Override
        public Lock lock(String form, String path, Runnable revoked) {
            if (form.startsWith("semaphore:")) {
                int leases = Integer.parseInt(form.substring("semaphore:".length()));
                return new Permit(new InterProcessSemaphoreV2(client, path, leases));
            }
            InterProcessReadWriteLock both = new InterProcessReadWriteLock(client, path);
            switch (form) {
                case "mutex":
                    return new Plain(new InterProcessMutex(client, path));
                case "mutex-revocable":
                    InterProcessMutex mutex = new InterProcessMutex(client, path);
                    mutex.makeRevocable(ignored -> revoked.run());
                    return new Plain(mutex);
                case "semaphore-mutex":
                    return new Plain(new InterProcessSemaphoreMutex(client, path));
                case "read":
                    return new Plain(both.readLock());
                case "write":
                    return new Plain(both.writeLock());
                case "downgrade":
                    return new Downgrade(both, both.readLock());
                case "downgrade-in-place":
                    return new Downgrade(both, inPlace(client, path, both));
                case "selector":
                    return new Selector(client, path);
                case "latch":
                    return new Latch(client, path);
                default:
                    throw new IllegalArgumentException("no form " + form);
            }
        }

        @Override
        public void revoke(String node) throws Exception {
            Revoker.attemptRevoke(client, node);
        }

        @Override
        public void close() {
            client.close();
        }
    }

    /**
     * A reader in its writer's place, as Curator has made it since 5.5: its node has the number of the write node.
     * Before that, Curator's own reader queues up at the end, behind waiting writers.
     */
    private static InterProcessLock inPlace(CuratorFramework client, String path, InterProcessReadWriteLock both) {
        return new InterProcessMutex(client, path, new StandardLockInternalsDriver() {
            @Override
            public String createsTheLock(CuratorFramework client, String ignored, byte[] data) throws Exception {
                String writer = both.writeLock().getParticipantNodes().iterator().next(); // the first of them holds
                String number = writer.substring(writer.length() - 10);
                return client.create()
                        .creatingParentContainersIfNeeded()
                        .withProtection()
                        .withMode(CreateMode.EPHEMERAL)
                        .forPath(path + "/__READ__" + number);
            }

            @Override
            public PredicateResults getsTheLock(CuratorFramework client, List<String> children, String name, int max) {
                return new PredicateResults(null, true); // its writer is inside
            }
        });
    }

    /** Any lock that is acquired and released. */
    private static class Plain implements Lock {
        private final InterProcessLock lock;

        Plain(InterProcessLock lock) {
            this.lock = lock;
        }

        @Override
        public boolean acquire(long ms) throws Exception {
            if (ms < 0) {
                lock.acquire();
                return true;
            }
            return lock.acquire(ms, TimeUnit.MILLISECONDS);
        }

        @Override
        public void release() throws Exception {
            lock.release();
        }
    }

    /** A writer that becomes a reader. */
    private static final class Downgrade extends Plain {
        private final InterProcessLock writer;
        private final InterProcessLock reader;

        Downgrade(InterProcessReadWriteLock both, InterProcessLock reader) {
            super(both.writeLock());
            this.writer = both.writeLock();
            this.reader = reader;
        }

        @Override
        public void shares() throws Exception {
            reader.acquire();
        }

        @Override
        public void share() throws Exception {
            writer.release();
        }

        @Override
        public void release() throws Exception {
            reader.release();
        }
    }

    /** A LeaderSelector, which queues anew for each term and leads until the release. */
    private static final class Selector extends LeaderSelectorListenerAdapter implements Lock {
        private final LeaderSelector selector;
        private final Semaphore entered = new Semaphore(0);
        private final Semaphore left = new Semaphore(0);
        private boolean started;

        Selector(CuratorFramework client, String path) {
            selector = new LeaderSelector(client, path, this);
        }

        @Override
        public void takeLeadership(CuratorFramework client) throws InterruptedException {
            entered.release();
            left.acquire();
        }

        @Override
        public boolean acquire(long ms) throws InterruptedException {
            if (ms >= 0) {
                throw new UnsupportedOperationException("a LeaderSelector waits without end");
            }
            if (started) {
                while (!selector.requeue()) { // it refuses until takeLeadership has returned
                    Thread.yield();
                }
            } else {
                selector.start();
                started = true;
            }
            entered.acquire();
            return true;
        }

        @Override
        public void release() {
            left.release();
        }
    }

    /** A LeaderLatch, a new one for each term. */
    private static final class Latch implements Lock {
        private final CuratorFramework client;
        private final String path;
        private LeaderLatch latch;

        Latch(CuratorFramework client, String path) {
            this.client = client;
            this.path = path;
        }

        @Override
        public boolean acquire(long ms) throws Exception {
            if (ms >= 0) {
                throw new UnsupportedOperationException("no contender gives up a LeaderLatch");
            }
            latch = new LeaderLatch(client, path);
            latch.start();
            latch.await();
            return true;
        }

        @Override
        public void release() throws Exception {
            latch.close();
        }
    }

    /** One of several permits. */
    private static final class Permit implements Lock {
        private final InterProcessSemaphoreV2 semaphore;
        private Lease lease;

        Permit(InterProcessSemaphoreV2 semaphore) {
            this.semaphore = semaphore;
        }

        @Override
        public boolean acquire(long ms) throws Exception {
            lease = ms < 0 ? semaphore.acquire() : semaphore.acquire(ms, TimeUnit.MILLISECONDS);
            return lease != null;
        }

        @Override
        public void release() throws Exception {
            semaphore.returnLease(lease);
        }
    }
}
