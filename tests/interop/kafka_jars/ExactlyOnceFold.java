import java.util.Properties;
import java.util.concurrent.CountDownLatch;

import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Produced;

/**
 * An application of Kafka Streams with exactly_once_v2.  Arguments: bootstrap servers, application id, directory of its
 * state.  It reads the topic "numbers" of text keys and values.  To "folded" it writes, for each record, the fold of its
 * key's values so far: 31 times the fold plus the value, which depends on their order.  To "summed" it writes the sums
 * by the last digit of the value, which go through a repartition topic.  It runs until it is killed.
 */
public class ExactlyOnceFold {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, arguments[1]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, arguments[2]);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 200);
        settings.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 3);
        settings.put(StreamsConfig.consumerPrefix(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG), "earliest");
        settings.put(StreamsConfig.consumerPrefix(ConsumerConfig.SESSION_TIMEOUT_MS_CONFIG), 6_000);
        settings.put(StreamsConfig.consumerPrefix(ConsumerConfig.HEARTBEAT_INTERVAL_MS_CONFIG), 1_500);
        settings.put(StreamsConfig.producerPrefix(ProducerConfig.TRANSACTION_TIMEOUT_CONFIG), 10_000);

        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> numbers = builder.stream("numbers", Consumed.with(Serdes.String(), Serdes.String()));
        numbers.groupByKey()
            .aggregate(() -> "0", (key, value, fold) -> Long.toString(31 * Long.parseLong(fold) + Long.parseLong(value)))
            .toStream()
            .to("folded", Produced.with(Serdes.String(), Serdes.String()));
        numbers.groupBy((key, value) -> value.substring(value.length() - 1), Grouped.with(Serdes.String(), Serdes.String()))
            .aggregate(() -> "0", (key, value, sum) -> Long.toString(Long.parseLong(sum) + Long.parseLong(value)))
            .toStream()
            .to("summed", Produced.with(Serdes.String(), Serdes.String()));

        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        // Errors of outages end a thread; another one continues from the committed offsets.
        streams.setUncaughtExceptionHandler(failed -> {
            System.out.println("replaced a thread: " + failed);
            return StreamThreadExceptionResponse.REPLACE_THREAD;
        });
        streams.setStateListener((now, before) -> System.out.println("state " + now));
        streams.start();
        new CountDownLatch(1).await();
    }
}
