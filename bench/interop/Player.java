import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
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
 * Runs contenders that use the locks of Apache Curator. player_test.go describes orders and news.
 *
 * <p>Arguments: where the server is, the session timeout in milliseconds.
 */
public final class Player {
    /** What a contender does with its lock, always from its own thread. */
    interface Lock {
        /** The session that the lock's nodes belong to. */
        long session() throws Exception;

        /** Waits for the lock, at most that many milliseconds, or without end if negative. */
        boolean acquire(long ms) throws Exception;

        /** Becomes a reader as well, if the form can. */
        default boolean shares() throws Exception {
            return false;
        }

        /** Is a reader only, from here on. */
        default void share() throws Exception {}

        void release() throws Exception;

        /** Asks the owner of the node to release it. */
        default void revoke(String node) throws Exception {
            throw new UnsupportedOperationException("revoke");
        }

        /** Calls it whenever the lock is asked back. */
        default void revocable(Runnable told) {}

        /** Ends the session. */
        void close() throws Exception;
    }

    private static final class Contender {
        final String name;
        final BlockingQueue<String> orders = new LinkedBlockingQueue<>();
        final BlockingQueue<String> answers = new LinkedBlockingQueue<>();
        volatile boolean stopped;

        Contender(String name) {
            this.name = name;
        }
    }

    private final String addr;
    private final int timeout;

    private Player(String addr, int timeout) {
        this.addr = addr;
        this.timeout = timeout;
    }

    public static void main(String[] args) throws Exception {
        Player player = new Player(args[0], Integer.parseInt(args[1]));
        Map<String, Contender> contenders = new HashMap<>();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] order = line.split(" ");
            Contender c = contenders.get(order[1]);
            switch (order[0]) {
                case "open":
                    Contender opened = new Contender(order[1]);
                    contenders.put(opened.name, opened);
                    Thread thread = new Thread(() -> player.contend(opened, order[2], order[3]), opened.name);
                    thread.setDaemon(true);
                    thread.start();
                    break;
                case "go":
                case "ok":
                    c.answers.add(order[0]);
                    break;
                case "stop":
                    c.stopped = true;
                    c.orders.add(line);
                    break;
                default:
                    c.orders.add(line);
            }
        }
        System.exit(0); // a contender that waits for a lock is left where it is
    }

    private void contend(Contender c, String form, String path) {
        try {
            Lock lock = open(form, path);
            lock.revocable(() -> say("revoked " + c.name));
            say("opened " + c.name + " " + lock.session());
            while (!c.stopped) {
                String[] order = c.orders.take().split(" ");
                switch (order[0]) {
                    case "run":
                        while (!c.stopped) {
                            lock.acquire(-1);
                            section(c, lock);
                        }
                        break;
                    case "try":
                        if (lock.acquire(Long.parseLong(order[2]))) {
                            section(c, lock);
                            say("idle " + c.name);
                        } else {
                            say("busy " + c.name);
                        }
                        break;
                    case "revoke":
                        lock.revoke(order[2]);
                        break;
                    case "stop":
                        break;
                    default:
                        throw new IllegalArgumentException(order[0]);
                }
            }
            lock.close();
            say("stopped " + c.name);
        } catch (Throwable e) {
            say("fail " + c.name + " " + String.valueOf(e).replace('\n', ' '));
        }
    }

    private static void section(Contender c, Lock lock) throws Exception {
        say("enter " + c.name);
        await(c, "go");
        if (lock.shares()) {
            say("share " + c.name);
            await(c, "go");
            lock.share();
        }
        say("leave " + c.name);
        await(c, "ok");
        lock.release();
    }

    private static void await(Contender c, String word) throws Exception {
        String answer = c.answers.take();
        if (!answer.equals(word)) {
            throw new IllegalStateException("told " + answer + " instead of " + word);
        }
    }

    /** One write for each line, so that lines of several threads never mix. */
    private static synchronized void say(String news) {
        byte[] line = (news + "\n").getBytes(StandardCharsets.UTF_8);
        System.out.write(line, 0, line.length);
        System.out.flush();
    }

    private Lock open(String form, String path) throws Exception {
        if (form.equals("writelock")) { // a class of its own, compiled only where there is a WriteLock
            return (Lock) Class.forName("WriteLocks")
                    .getConstructor(String.class, int.class, String.class)
                    .newInstance(addr, timeout, path);
        }
        CuratorFramework client = CuratorFrameworkFactory.builder()
                .connectString(addr)
                .sessionTimeoutMs(timeout)
                .connectionTimeoutMs(timeout)
                .retryPolicy(new ExponentialBackoffRetry(1000, 3))
                .build();
        client.start();
        client.blockUntilConnected();
        if (form.startsWith("semaphore:")) {
            int leases = Integer.parseInt(form.substring("semaphore:".length()));
            return new Permit(client, new InterProcessSemaphoreV2(client, path, leases));
        }
        InterProcessReadWriteLock both = new InterProcessReadWriteLock(client, path);
        switch (form) {
            case "mutex":
                return new Plain(client, new InterProcessMutex(client, path));
            case "mutex-revocable":
                return new Revocable(client, new InterProcessMutex(client, path));
            case "semaphore-mutex":
                return new Plain(client, new InterProcessSemaphoreMutex(client, path));
            case "read":
                return new Plain(client, both.readLock());
            case "write":
                return new Plain(client, both.writeLock());
            case "downgrade":
                return new Downgrade(client, both, both.readLock());
            case "downgrade-in-place":
                return new Downgrade(client, both, inPlace(client, path, both));
            default:
                throw new IllegalArgumentException("no form " + form);
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

    /** A session of Curator's. */
    private abstract static class Session implements Lock {
        private final CuratorFramework client;

        Session(CuratorFramework client) {
            this.client = client;
        }

        @Override
        public long session() throws Exception {
            return client.getZookeeperClient().getZooKeeper().getSessionId();
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

    /** Any lock that is acquired and released. */
    private static class Plain extends Session {
        private final InterProcessLock lock;

        Plain(CuratorFramework client, InterProcessLock lock) {
            super(client);
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

    /** A mutex that can be asked back. */
    private static final class Revocable extends Plain {
        private final InterProcessMutex mutex;

        Revocable(CuratorFramework client, InterProcessMutex mutex) {
            super(client, mutex);
            this.mutex = mutex;
        }

        @Override
        public void revocable(Runnable told) {
            mutex.makeRevocable(lock -> told.run());
        }
    }

    /** A writer that becomes a reader. */
    private static final class Downgrade extends Session {
        private final InterProcessReadWriteLock both;
        private final InterProcessLock reader;

        Downgrade(CuratorFramework client, InterProcessReadWriteLock both, InterProcessLock reader) {
            super(client);
            this.both = both;
            this.reader = reader;
        }

        @Override
        public boolean acquire(long ms) throws Exception {
            if (ms < 0) {
                both.writeLock().acquire();
                return true;
            }
            return both.writeLock().acquire(ms, TimeUnit.MILLISECONDS);
        }

        @Override
        public boolean shares() throws Exception {
            reader.acquire();
            return true;
        }

        @Override
        public void share() throws Exception {
            both.writeLock().release();
        }

        @Override
        public void release() throws Exception {
            reader.release();
        }
    }

    /** One of several permits. */
    private static final class Permit extends Session {
        private final InterProcessSemaphoreV2 semaphore;
        private Lease lease;

        Permit(CuratorFramework client, InterProcessSemaphoreV2 semaphore) {
            super(client);
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
