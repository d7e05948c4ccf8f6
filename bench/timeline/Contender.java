import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * Takes a lock with Apache Curator and prints what it is told, until its input ends.
 *
 * <p>Arguments: where the server is, the path of the lock, the session timeout in milliseconds.
 */
public final class Contender {
    public static void main(String[] args) throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.builder()
                .connectString(args[0])
                .sessionTimeoutMs(Integer.parseInt(args[2]))
                .retryPolicy(new ExponentialBackoffRetry(1000, 3))
                .build();
        client.getConnectionStateListenable().addListener((c, state) -> {
            switch (state) {
                case SUSPENDED:
                    say("suspended", state);
                    break;
                case LOST:
                    say("lost", state);
                    break;
                case CONNECTED:
                case RECONNECTED:
                    say("connected", state);
                    break;
                default:
                    say("other", state);
            }
        });
        Thread waiting = new Thread(() -> {
            try {
                new InterProcessMutex(client, args[1]).acquire();
                say("granted", "acquire returned");
            } catch (Exception e) {
                say("failed", e);
            }
        });
        waiting.setDaemon(true);
        client.start();
        waiting.start();
        while (System.in.read() >= 0) {
            // Nothing is ever written to it.
        }
        System.exit(0); // gives nothing back: the run is over
    }

    private static synchronized void say(String word, Object own) {
        System.out.println("told " + word + " " + String.valueOf(own).replace('\n', ' '));
        System.out.flush();
    }
}
