import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;

import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * Static members of groups with one member each, whose applications stop polling for some time.  Arguments: bootstrap
 * servers, topic, session timeout in ms, then GROUP=BUSY_MS for each group.  A line of input starts the busy time.  The
 * output has a line "GROUP reads" for each member's first record, and a line "GROUP OUTCOME" for its end: "resumed" if
 * it reads a record that was appended after its busy time, otherwise the exception.
 */
public class StaticMembers {
    private static final Duration POLL = Duration.ofMillis(100);
    private static final long GIVES_UP_MS = 60_000;

    private static volatile boolean busy;

    private static synchronized void report(String group, String outcome) {
        System.out.println(group + " " + outcome);
    }

    private static void consume(Properties common, String topic, String group, long busyMs) throws Exception {
        Properties settings = new Properties();
        settings.putAll(common);
        settings.put(ConsumerConfig.GROUP_ID_CONFIG, group);
        settings.put(ConsumerConfig.GROUP_INSTANCE_ID_CONFIG, "only");
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings)) {
            consumer.subscribe(List.of(topic));
            boolean reads = false;
            while (!busy) {
                if (!consumer.poll(POLL).isEmpty() && !reads) {
                    reads = true;
                    report(group, "reads");
                }
            }
            Thread.sleep(busyMs);
            long resumed = System.currentTimeMillis();
            while (System.currentTimeMillis() < resumed + GIVES_UP_MS) {
                for (ConsumerRecord<String, String> record : consumer.poll(POLL)) {
                    if (record.timestamp() > resumed) {
                        report(group, "resumed");
                        return;
                    }
                }
            }
            report(group, "reads nothing");
        } catch (KafkaException failed) {
            report(group, failed.getClass().getSimpleName());
        }
    }

    public static void main(String[] arguments) throws Exception {
        Properties common = new Properties();
        common.put(ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        common.put(ConsumerConfig.SESSION_TIMEOUT_MS_CONFIG, arguments[2]);
        common.put(ConsumerConfig.HEARTBEAT_INTERVAL_MS_CONFIG, Integer.parseInt(arguments[2]) / 3);
        common.put(ConsumerConfig.AUTO_COMMIT_INTERVAL_MS_CONFIG, 1000);
        common.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        common.put(ConsumerConfig.KEY_DESERIALIZER_CLASS_CONFIG, StringDeserializer.class);
        common.put(ConsumerConfig.VALUE_DESERIALIZER_CLASS_CONFIG, StringDeserializer.class);
        List<Thread> threads = new ArrayList<>();
        for (int at = 3; at < arguments.length; at++) {
            String[] member = arguments[at].split("=");
            Thread thread = new Thread(() -> {
                try {
                    consume(common, arguments[1], member[0], Long.parseLong(member[1]));
                } catch (Exception unexpected) {
                    report(member[0], unexpected.toString());
                }
            });
            threads.add(thread);
            thread.start();
        }
        System.in.read();
        busy = true;
        for (Thread thread : threads)
            thread.join();
    }
}
