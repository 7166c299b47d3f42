import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.CreateTopicsResult;
import org.apache.kafka.clients.admin.DescribeClusterOptions;
import org.apache.kafka.clients.admin.DescribeTopicsOptions;
import org.apache.kafka.clients.admin.LogDirDescription;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.common.config.ConfigResource;

/** Prints what Java's administration client reads from a broker, one response a line.  Argument: bootstrap servers. */
public class AdminAnswers {
    private interface Question {
        Object ask() throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", arguments[0]))) {
            NewTopic topic = new NewTopic("java", 2, (short) 1).configs(Map.of("retention.ms", "1000"));
            CreateTopicsResult created = admin.createTopics(Set.of(topic));
            answer("created configs", () -> sorted(created.config("java").get()));
            answer("created partitions", () -> created.numPartitions("java").get());
            answer("topic operations", () -> names(admin.describeTopics(Set.of("java"),
                new DescribeTopicsOptions().includeAuthorizedOperations(true))
                .allTopicNames().get().get("java").authorizedOperations()));
            answer("cluster operations", () -> names(admin.describeCluster(
                new DescribeClusterOptions().includeAuthorizedOperations(true)).authorizedOperations().get()));
            answer("log directories know their sizes", () -> {
                Collection<LogDirDescription> found =
                    admin.describeLogDirs(Set.of(1)).allDescriptions().get().get(1).values();
                return found.stream().allMatch(each -> each.totalBytes().getAsLong() > each.usableBytes().getAsLong()
                    && each.usableBytes().getAsLong() > 0);
            });
            ConfigResource loggers = new ConfigResource(ConfigResource.Type.BROKER_LOGGER, "1");
            String name = "kafka.controller.KafkaController";
            answer("logger before", () -> admin.describeConfigs(Set.of(loggers)).all().get().get(loggers).get(name));
            answer("logger set", () -> alter(admin, loggers, name, "DEBUG", AlterConfigOp.OpType.SET));
            answer("logger after", () -> admin.describeConfigs(Set.of(loggers)).all().get().get(loggers).get(name));
            answer("logger unset", () -> alter(admin, loggers, name, "", AlterConfigOp.OpType.DELETE));
            answer("no such logger", () -> alter(admin, loggers, "no.such", "INFO", AlterConfigOp.OpType.SET));
            ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, "java");
            answer("subtract", () -> alter(admin, resource, "cleanup.policy", "delete", AlterConfigOp.OpType.SUBTRACT));
            answer("subtracted",
                () -> admin.describeConfigs(Set.of(resource)).all().get().get(resource).get("cleanup.policy").value());
        }
    }

    private static void answer(String what, Question question) throws Exception {
        Object said;
        try {
            said = question.ask();
        } catch (ExecutionException failed) {
            said = failed.getCause();
        }
        System.out.println(what + ": " + said);
    }

    private static Object alter(Admin admin, ConfigResource resource, String name, String value,
                                AlterConfigOp.OpType operation) throws Exception {
        AlterConfigOp change = new AlterConfigOp(new ConfigEntry(name, value), operation);
        return admin.incrementalAlterConfigs(Map.of(resource, List.of(change))).all().get();
    }

    private static Map<String, String> sorted(Config config) {
        Map<String, String> found = new TreeMap<>();
        config.entries().forEach(entry -> found.put(entry.name(), entry.value() + " " + entry.source()));
        return found;
    }

    private static Object names(Set<?> operations) {
        return operations.stream().map(Object::toString).sorted().toList();
    }
}
