import java.util.concurrent.TimeoutException;

import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.streaming.StreamingQueryException;
import org.apache.spark.sql.streaming.Trigger;

/**
 * Reads a topic with Spark's Kafka source, as a batch or as a stream of the available records, and appends the rows to
 * a directory of JSON.  Arguments: batch or stream, the bootstrap servers, the topic, the directory, the checkpoint.
 */
public class SparkReads {
    public static void main(String[] arguments) throws StreamingQueryException, TimeoutException {
        String how = arguments[0];
        String servers = arguments[1];
        String topic = arguments[2];
        String rows = arguments[3];
        String checkpoint = arguments[4];
        SparkSession spark = SparkSession.builder().appName("reads").master("local[2]")
            .config("spark.ui.enabled", "false").config("spark.driver.host", "127.0.0.1").getOrCreate();
        if (how.equals("batch")) {
            columns(spark.read().format("kafka").option("kafka.bootstrap.servers", servers)
                .option("subscribe", topic).load()).write().mode("append").json(rows);
        } else {
            columns(spark.readStream().format("kafka").option("kafka.bootstrap.servers", servers)
                .option("subscribe", topic).option("startingOffsets", "earliest")
                .option("maxOffsetsPerTrigger", 1000).load())
                .writeStream().format("json").option("path", rows).option("checkpointLocation", checkpoint)
                .trigger(Trigger.AvailableNow()).start().awaitTermination();
        }
        spark.stop();
    }

    private static Dataset<Row> columns(Dataset<Row> read) {
        return read.selectExpr("topic", "partition", "offset", "CAST(key AS STRING) AS key", "CAST(value AS STRING) AS value");
    }
}
