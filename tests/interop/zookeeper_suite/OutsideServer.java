import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

import org.apache.zookeeper.server.ServerCnxn;
import org.apache.zookeeper.server.ServerCnxnFactory;
import org.apache.zookeeper.server.ZooKeeperServer;

/**
 * The server port of a ZooKeeper test: the server that listens there is an external process, which is started and
 * stopped through the port in the property "outside.peers".  ZooKeeper's own property
 * "zookeeper.serverCnxnFactory" selects this class.
 */
public class OutsideServer extends ServerCnxnFactory {
    private static final String PREFIX = "zookeeper.";
    /** Authentication providers written in Java by the suite: no other process can have them. */
    private static final String CLASSES_OF_THE_SUITE = "org.apache.zookeeper.test.";
    /** System properties that ZooKeeper reads without its prefix; in a zoo.cfg here they have the same names. */
    private static final List<String> WITHOUT_PREFIX = List.of(
        "java.security.auth.login.config", "jute.maxbuffer", "readonlymode.enabled", "znode.container.checkIntervalMs");

    private InetSocketAddress address;
    private int backlog;

    @Override
    public void configure(InetSocketAddress address, int maxConnections, int backlog, boolean secure) {
        this.address = address;
        this.maxCnxns = maxConnections;
        this.backlog = backlog;
        this.secure = secure;
    }

    @Override
    public void startup(ZooKeeperServer server, boolean startServer) throws IOException {
        setZooKeeperServer(server);
        start();
    }

    @Override
    public void start() {
        if (zkServer == null) {
            throw new IllegalStateException("Java's own quorum wants a port here");
        }
        Map<String, String> keys = new TreeMap<>();
        for (String name : System.getProperties().stringPropertyNames()) {
            String value = System.getProperty(name);
            if (name.startsWith(PREFIX) && !value.startsWith(CLASSES_OF_THE_SUITE)) {
                keys.put(name.substring(PREFIX.length()), value);
            } else if (WITHOUT_PREFIX.contains(name)) {
                keys.put(name, value);
            }
        }
        File versioned = zkServer.getTxnLogFactory().getDataLogDir();
        keys.put("dataDir", versioned.getParent());
        keys.put("clientPort", String.valueOf(address.getPort()));
        InetAddress bound = address.getAddress();
        // Without the zone of an IPv6 address, which Java adds.
        String host = bound.isAnyLocalAddress() ? "127.0.0.1" : bound.getHostAddress().split("%")[0];
        keys.put("clientPortAddress", host);
        keys.put("tickTime", String.valueOf(zkServer.getTickTime()));
        keys.put("minSessionTimeout", String.valueOf(zkServer.getMinSessionTimeout()));
        keys.put("maxSessionTimeout", String.valueOf(zkServer.getMaxSessionTimeout()));
        // The tests use -1 for no limit; in a zoo.cfg that is 0.
        keys.put("maxClientCnxns", String.valueOf(Math.max(maxCnxns, 0)));
        StringBuilder line = new StringBuilder("start\t" + address.getPort());
        keys.forEach((key, value) -> line.append('\t').append(key).append('=').append(value));
        String answer = ask(line.toString());
        if (!"started".equals(answer)) {
            throw new IllegalStateException(answer);
        }
    }

    @Override
    public void shutdown() {
        ask("stop\t" + address.getPort());
    }

    private static String ask(String line) {
        int port = Integer.getInteger("outside.peers");
        try (Socket link = new Socket(InetAddress.getLoopbackAddress(), port)) {
            link.getOutputStream().write((line + "\n").getBytes(StandardCharsets.UTF_8));
            return new BufferedReader(new InputStreamReader(link.getInputStream(), StandardCharsets.UTF_8)).readLine();
        } catch (IOException broken) {
            throw new IllegalStateException(broken);
        }
    }

    @Override
    public int getLocalPort() {
        return address.getPort();
    }

    @Override
    public InetSocketAddress getLocalAddress() {
        return address;
    }

    @Override
    public Iterable<ServerCnxn> getConnections() {
        return cnxns;
    }

    @Override
    public void reconfigure(InetSocketAddress to) {
        throw new UnsupportedOperationException();
    }

    @Override
    public int getMaxClientCnxnsPerHost() {
        return maxCnxns;
    }

    @Override
    public void setMaxClientCnxnsPerHost(int max) {
        maxCnxns = max;
    }

    @Override
    public int getSocketListenBacklog() {
        return backlog;
    }

    @Override
    public void join() {
    }

    @Override
    public void closeAll(ServerCnxn.DisconnectReason reason) {
        throw new UnsupportedOperationException();
    }

    @Override
    public void resetAllConnectionStats() {
    }

    @Override
    public Iterable<Map<String, Object>> getAllConnectionInfo(boolean brief) {
        return List.of();
    }
}
