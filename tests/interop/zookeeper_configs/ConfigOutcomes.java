import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.AccessibleObject;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Properties;

/**
 * Starts Apache ZooKeeper on one configuration after the other and prints each result.
 *
 * <p>Arguments: ZooKeeper's own jars.  Each line of standard input: a zoo.cfg, the system properties to set (separated
 * by 0x1f), how far to start (parse or serve), and an expression to read, separated by tabs.  Each line of standard
 * output: the value read, or `refused` or `ended` (the server has started and ended) and the
 * reason.  Every configuration has its own class loader, because ZooKeeper reads many system properties once, when a
 * class is initialised.
 */
public class ConfigOutcomes {
    private static final int PATIENCE_MS = 30_000;
    private static final int ATTEMPTS = 3;
    private static final String ZK = "org.apache.zookeeper.";
    private static final String SERVER = ZK + "server.";

    public static void main(String[] args) throws Exception {
        URL[] jars = new URL[args.length];
        for (int i = 0; i < args.length; i++) {
            jars[i] = Path.of(args[i]).toUri().toURL();
        }
        Properties before = (Properties) System.getProperties().clone();
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] parts = line.split("\t", -1);
            System.setProperties((Properties) before.clone());
            for (String property : parts[1].split("\u001f")) {
                int equals = property.indexOf('=');
                if (equals > 0) {
                    System.setProperty(property.substring(0, equals), property.substring(equals + 1));
                }
            }
            String[] outcome = new String[1];
            for (int i = 0; i < ATTEMPTS && mayChange(outcome[0]); i++) {
                outcome[0] = "failed\tafter " + PATIENCE_MS + " ms";
                Thread reading = new Thread(() -> outcome[0] = outcomeOf(jars, parts));
                reading.setDaemon(true);
                reading.start();
                reading.join(PATIENCE_MS);
            }
            out.println(outcome[0].replace("\n", " "));
        }
        System.exit(0);
    }

    private static boolean mayChange(String outcome) {
        return outcome == null || outcome.startsWith("failed") || outcome.startsWith("ended");
    }

    private static class Ended extends Exception {
    }

    private static String outcomeOf(URL[] jars, String[] parts) {
        URLClassLoader loader = new URLClassLoader(jars, ConfigOutcomes.class.getClassLoader());
        Thread.currentThread().setContextClassLoader(loader);
        try {
            return "read\t" + new ConfigOutcomes(loader).read(parts[0], parts[2].equals("serve"), parts[3]);
        } catch (InvocationTargetException failure) {
            return "refused\t" + rootOf(failure.getCause());
        } catch (Ended ended) {
            return "ended\tby itself";
        } catch (Exception | LinkageError failure) {
            return "failed\t" + failure;
        }
    }

    private static Throwable rootOf(Throwable failure) {
        return failure.getCause() == null ? failure : rootOf(failure.getCause());
    }

    private final ClassLoader loader;
    private Object config;
    private Object main;

    private ConfigOutcomes(ClassLoader loader) {
        this.loader = loader;
    }

    private String read(String path, boolean serves, String expression) throws Exception {
        config = type(SERVER + "quorum.QuorumPeerConfig").getConstructor().newInstance();
        call(config, "parse", path);
        if (serves) {
            start();
        }
        try {
            return String.valueOf(evaluate(expression));
        } finally {
            if (serves) {
                stop();
            }
        }
    }

    private void stop() throws Exception {
        Object factory = call(main, "getCnxnFactory");
        if (factory != null) {
            call(factory, "shutdown");
        }
        call(field(main, "containerManager"), "stop");
    }

    private void start() throws Exception {
        Object settings = type(SERVER + "ServerConfig").getConstructor().newInstance();
        call(settings, "readFrom", config);
        main = type(SERVER + "ZooKeeperServerMain").getConstructor().newInstance();
        Throwable[] failed = new Throwable[1];
        boolean[] started = new boolean[1];
        Thread running = new Thread(() -> {
            try {
                call(main, "runFromConfig", settings);
            } catch (InvocationTargetException failure) {
                failed[0] = failure.getCause();
            } catch (Exception failure) {
                failed[0] = failure;
            }
        });
        running.setDaemon(true);
        running.setContextClassLoader(loader);
        running.start();
        while (!started[0] && running.isAlive()) {
            Thread.sleep(2);
            started[0] = waitsForItsEnd(running.getStackTrace());
        }
        if (!started[0]) {
            running.join(10);
            if (failed[0] == null) {
                throw new Ended();
            }
            throw new InvocationTargetException(failed[0]);
        }
    }

    /** runFromConfig waits there once everything is started. */
    private static boolean waitsForItsEnd(StackTraceElement[] frames) {
        for (int i = 1; i < frames.length; i++) {
            if (frames[i].getMethodName().equals("runFromConfig")) {
                return frames[i - 1].getClassName().equals("java.util.concurrent.CountDownLatch");
            }
        }
        return false;
    }

    /** `config.getTickTime`, `server.getZKDatabase.commitLogCount`, `factory.maxCnxns`, `server.Class.member`. */
    private Object evaluate(String expression) throws Exception {
        String[] names = expression.split("[.]");
        List<String> members = new ArrayList<>(Arrays.asList(names).subList(1, names.length));
        Object target;
        switch (names[0]) {
            case "config":
                target = config;
                break;
            case "factory":
                target = call(main, "getCnxnFactory");
                break;
            case "zk":
                target = call(call(main, "getCnxnFactory"), "getZooKeeperServer");
                break;
            case "containers":
                target = field(main, "containerManager");
                break;
            case "property":
                return System.getProperty(expression.substring("property.".length()));
            case "integer":
                return Integer.getInteger(expression.substring("integer.".length()));
            case "flag":
                return Boolean.getBoolean(expression.substring("flag.".length()));
            default:
                String name = names[0].startsWith("/jute") ? "org.apache" + names[0] : ZK + names[0];
                name = name.replace("./", ".").replace('/', '.');
                target = type(name);
        }
        for (String member : members) {
            target = member(target, member);
        }
        return target;
    }

    private Object member(Object target, String name) throws Exception {
        Class<?> type = target instanceof Class ? (Class<?>) target : target.getClass();
        for (Class<?> each = type; each != null; each = each.getSuperclass()) {
            for (Method method : each.getDeclaredMethods()) {
                if (method.getName().equals(name) && method.getParameterCount() == 0) {
                    return on(method).invoke(Modifier.isStatic(method.getModifiers()) ? null : target);
                }
            }
        }
        if (name.equals("new")) {
            return on(type.getDeclaredConstructor()).newInstance();
        }
        return field(target, name);
    }

    private Object field(Object target, String name) throws Exception {
        for (Class<?> each = target instanceof Class ? (Class<?>) target : target.getClass(); each != null;
            each = each.getSuperclass()) {
            for (Field field : each.getDeclaredFields()) {
                if (field.getName().equals(name)) {
                    try {
                        return on(field).get(Modifier.isStatic(field.getModifiers()) ? null : target);
                    } catch (LinkageError failure) {
                        throw new InvocationTargetException(failure);
                    }
                }
            }
        }
        throw new NoSuchFieldException(name);
    }

    private Object call(Object target, String name, Object... arguments) throws Exception {
        for (Class<?> each = target.getClass(); each != null; each = each.getSuperclass()) {
            for (Method method : each.getDeclaredMethods()) {
                if (method.getName().equals(name) && accepts(method, arguments)) {
                    return on(method).invoke(target, arguments);
                }
            }
        }
        throw new NoSuchMethodException(name);
    }

    private static boolean accepts(Method method, Object[] arguments) {
        Class<?>[] types = method.getParameterTypes();
        if (types.length != arguments.length) {
            return false;
        }
        for (int i = 0; i < types.length; i++) {
            if (!types[i].isInstance(arguments[i])) {
                return false;
            }
        }
        return true;
    }

    private Class<?> type(String name) throws Exception {
        return Class.forName(name, false, loader);
    }

    private static <T extends AccessibleObject> T on(T member) {
        member.setAccessible(true);
        return member;
    }
}
