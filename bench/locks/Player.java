import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMultiLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * Answers for Apache Curator. words.go describes the questions and answers.
 *
 * <p>Arguments: where the server is, the session timeout in milliseconds.
 */
public final class Player {
    private static final long STACK = 256 << 10;

    private final String addr;
    private final int timeout;
    private final List<CuratorFramework> sessions = new ArrayList<>();
    private final List<InterProcessMutex> kept = new ArrayList<>();
    private final List<Thread> contenders = new ArrayList<>();
    private LinkedBlockingQueue<Waiter> granted = new LinkedBlockingQueue<>();
    private Waiter holder;
    private String kind = "mutex";
    private int width;
    private String path = "";
    private int size;

    /** A contender that has the lock, and is told when to release it. */
    private static final class Waiter {
        final CountDownLatch leave = new CountDownLatch(1);
        final CountDownLatch left = new CountDownLatch(1);
        long at;
        long released;
        Exception failed;
    }

    /** A lock of any kind. */
    private interface Holdable {
        void acquire() throws Exception;

        void release() throws Exception;
    }

    private interface Action {
        void run() throws Exception;
    }

    private interface Work {
        void run(int i) throws Exception;
    }

    private Player(String addr, int timeout) {
        this.addr = addr;
        this.timeout = timeout;
    }

    public static void main(String[] args) throws Exception {
        Player player = new Player(args[0], Integer.parseInt(args[1]));
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] q = line.split(" ");
            String answer;
            try {
                long[] values = player.answer(q[0], q[1], Integer.parseInt(q[2]), Integer.parseInt(q[3]));
                answer = Arrays.stream(values).mapToObj(v -> " " + v).collect(Collectors.joining("", "ok", ""));
            } catch (Exception e) {
                answer = "no " + String.valueOf(e).replace('\n', ' ');
            }
            System.out.println(answer);
            System.out.flush();
        }
        player.close();
        System.exit(0); // a contender that waits for a lock is left where it is
    }

    private long[] answer(String verb, String path, int n, int also) throws Exception {
        switch (verb) {
            case "open":
                open(n);
                return new long[0];
            case "close":
                close();
                return new long[0];
            case "use":
                kind = path;
                width = n;
                return new long[0];
            case "cycle":
                return cycle(path, n);
            case "many":
                return many(path, n, also);
            case "fill":
                fill(path, n);
                return new long[0];
            case "drain":
                return drain(n);
            case "bytes":
                return new long[] {bytes()};
            case "hold":
                return hold(path, n);
            default:
                throw new UnsupportedOperationException("not offered by this library");
        }
    }

    private void open(int n) throws InterruptedException {
        for (int i = 0; i < n; i++) {
            CuratorFramework client = CuratorFrameworkFactory.builder()
                    .connectString(addr)
                    .sessionTimeoutMs(timeout)
                    .ensembleTracker(false) // else it goes on to other servers of an ensemble
                    .retryPolicy(new ExponentialBackoffRetry(1000, 3))
                    .build();
            client.start();
            client.blockUntilConnected();
            sessions.add(client);
        }
    }

    private void close() {
        sessions.forEach(CuratorFramework::close);
        sessions.clear();
        kept.clear();
        contenders.forEach(Thread::interrupt); // nothing else would end the waiters
        contenders.clear();
        granted = new LinkedBlockingQueue<>(); // the old queue is for contenders that end late
        holder = null;
        kind = "mutex";
        path = "";
    }

    /** A lock of the kind that is used. An InterProcessMutex belongs to a thread, and is reentrant in it. */
    private Holdable lock(CuratorFramework client, String path) throws Exception {
        switch (kind) {
            case "mutex":
                return holdable(new InterProcessMutex(client, path));
            case "multi":
                return holdable(new InterProcessMultiLock(client, IntStream.range(0, width)
                        .mapToObj(i -> path + "-" + i).collect(Collectors.toList())));
            case "semaphore":
                InterProcessSemaphoreV2 semaphore = new InterProcessSemaphoreV2(client, path, width);
                AtomicReference<Lease> lease = new AtomicReference<>();
                return holdable(() -> lease.set(semaphore.acquire()), () -> semaphore.returnLease(lease.get()));
            case "election":
                LeaderLatch latch = new LeaderLatch(client, path);
                return holdable(() -> {
                    latch.start();
                    latch.await();
                }, latch::close);
            default:
                throw new UnsupportedOperationException("not offered by this library");
        }
    }

    private static Holdable holdable(InterProcessLock lock) {
        return holdable(lock::acquire, lock::release);
    }

    private static Holdable holdable(Action acquire, Action release) {
        return new Holdable() {
            @Override
            public void acquire() throws Exception {
                acquire.run();
            }

            @Override
            public void release() throws Exception {
                release.run();
            }
        };
    }

    private long[] cycle(String path, int n) throws Exception {
        Holdable mutex = lock(sessions.get(0), path);
        long[] took = new long[n];
        for (int i = 0; i < n; i++) {
            long start = System.nanoTime();
            mutex.acquire();
            mutex.release();
            took[i] = System.nanoTime() - start;
        }
        return took;
    }

    private long[] many(String path, int locks, int cycles) throws Exception {
        CountDownLatch warm = new CountDownLatch(locks);
        CountDownLatch begin = new CountDownLatch(1);
        List<Thread> threads = new ArrayList<>();
        AtomicReference<Exception> failed = new AtomicReference<>();
        for (int i = 0; i < locks; i++) {
            InterProcessMutex mutex = new InterProcessMutex(sessions.get(0), path + "-" + i);
            threads.add(start(failed, t -> {
                try {
                    loop(mutex, 1);
                } finally {
                    warm.countDown();
                }
                begin.await();
                loop(mutex, cycles);
            }, i));
        }
        warm.await();
        long start = System.nanoTime();
        begin.countDown();
        join(threads, failed);
        return new long[] {System.nanoTime() - start};
    }

    private static void loop(InterProcessMutex mutex, int cycles) throws Exception {
        for (int i = 0; i < cycles; i++) {
            mutex.acquire();
            mutex.release();
        }
    }

    private void fill(String path, int n) throws Exception {
        if (!path.equals(this.path)) {
            this.path = path;
            size = 0;
            holder = null;
        }
        LinkedBlockingQueue<Waiter> queue = granted;
        for (int i = 0; i < n; i++) {
            Holdable mutex = lock(sessions.get(size++ % sessions.size()), path); // each contender is a thread and a lock
            Thread thread = new Thread(null, () -> contend(mutex, queue), "contender", STACK);
            thread.setDaemon(true);
            thread.start();
            contenders.add(thread);
        }
        if (holder == null) {
            holder = next();
        }
    }

    private static void contend(Holdable mutex, LinkedBlockingQueue<Waiter> queue) {
        Waiter w = new Waiter();
        try {
            mutex.acquire();
            w.at = System.nanoTime();
            queue.add(w);
            w.leave.await();
            w.released = System.nanoTime();
            w.left.countDown();
            mutex.release();
        } catch (Exception e) {
            // A contender that still waits when its session is closed ends here, and is not asked about any more.
            w.failed = e;
            queue.add(w);
        }
    }

    private Waiter next() throws Exception {
        Waiter w = granted.take();
        if (w.failed != null) {
            throw w.failed;
        }
        return w;
    }

    private long[] drain(int n) throws Exception {
        long[] took = new long[n];
        for (int i = 0; i < n; i++) {
            holder.leave.countDown();
            Waiter w = next();
            holder.left.await();
            took[i] = w.at - holder.released;
            holder = w;
        }
        return took;
    }

    /** What the process read and wrote, nearly all of it on its connections. Only Linux counts. */
    private static long bytes() throws IOException {
        long sum = 0;
        for (String line : Files.readAllLines(Paths.get("/proc/self/io"))) {
            if (line.startsWith("rchar:") || line.startsWith("wchar:")) {
                sum += Long.parseLong(line.substring(line.indexOf(' ') + 1));
            }
        }
        return sum;
    }

    private long[] hold(String path, int n) throws Exception {
        long heap = heap();
        int before = Thread.activeCount();
        InterProcessMutex[] mutexes = new InterProcessMutex[n];
        List<Thread> threads = new ArrayList<>();
        AtomicReference<Exception> failed = new AtomicReference<>();
        int hands = 64;
        for (int hand = 0; hand < hands; hand++) {
            threads.add(start(failed, first -> {
                for (int i = first; i < n; i += hands) {
                    mutexes[i] = new InterProcessMutex(sessions.get(0), path + "-" + i);
                    mutexes[i].acquire();
                }
            }, hand));
        }
        join(threads, failed);
        threads.clear();
        kept.addAll(Arrays.asList(mutexes));
        return new long[] {heap() - heap, Thread.activeCount() - before};
    }

    private static long heap() {
        System.gc();
        System.gc();
        return Runtime.getRuntime().totalMemory() - Runtime.getRuntime().freeMemory();
    }

    private static Thread start(AtomicReference<Exception> failed, Work work, int i) {
        Thread thread = new Thread(null, () -> {
            try {
                work.run(i);
            } catch (Exception e) {
                failed.set(e);
            }
        }, "worker", STACK);
        thread.start();
        return thread;
    }

    private static void join(List<Thread> threads, AtomicReference<Exception> failed) throws Exception {
        for (Thread thread : threads) {
            thread.join();
        }
        if (failed.get() != null) {
            throw failed.get();
        }
    }
}
