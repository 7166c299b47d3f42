import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

import kafka.security.authorizer.AclAuthorizer;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;

/**
 * Asks Kafka's AclAuthorizer. Arguments: the ensemble and super.users. Each line of standard input has the value of
 * allow.everyone.if.no.acl.found, the ACLs and a question, separated by tabs; each line of the output is a decision.
 */
public class AclAnswers {
    public static void main(String[] arguments) throws Exception {
        Map<String, AclAuthorizer> authorizers = new HashMap<>();
        for (String allows : List.of("true", "false")) {
            AclAuthorizer authorizer = new AclAuthorizer();
            authorizer.configure(Map.of("zookeeper.connect", arguments[0] + "/" + allows, "broker.id", "1",
                "super.users", arguments[1], "allow.everyone.if.no.acl.found", allows));
            authorizers.put(allows, authorizer);
        }
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] parts = line.split("\t", -1);
            AclAuthorizer authorizer = authorizers.get(parts[0]);
            authorizer.deleteAcls(null, List.of(AclBindingFilter.ANY)).get(0).toCompletableFuture().get();
            List<AclBinding> bindings = new ArrayList<>();
            for (String acl : parts[1].split("; ")) {
                if (!acl.isEmpty())
                    bindings.add(binding(acl.split(" ")));
            }
            for (var created : authorizer.createAcls(null, bindings)) {
                created.toCompletableFuture().get().exception().ifPresent(failure -> {
                    throw failure;
                });
            }
            System.out.println(allowed(authorizer, parts[2].split(" ")));
        }
        for (AclAuthorizer authorizer : authorizers.values())
            authorizer.close();
    }

    private static AclBinding binding(String[] words) {
        ResourcePattern pattern = new ResourcePattern(
            ResourceType.fromString(words[5]), words[6], PatternType.valueOf(words[4].toUpperCase()));
        AccessControlEntry entry = new AccessControlEntry("User:" + words[1], words[2],
            AclOperation.fromString(words[3]), AclPermissionType.fromString(words[0]));
        return new AclBinding(pattern, entry);
    }

    private static boolean allowed(AclAuthorizer authorizer, String[] words) throws Exception {
        AuthorizableRequestContext context = new Context(words[0], InetAddress.getByName(words[1]));
        AclOperation operation = AclOperation.fromString(words[2]);
        ResourceType type = ResourceType.fromString(words[3]);
        if (words.length == 4)
            return authorizer.authorizeByResourceType(context, operation, type) == AuthorizationResult.ALLOWED;
        ResourcePattern resource = new ResourcePattern(type, words[4], PatternType.LITERAL);
        Action action = new Action(operation, resource, 1, true, true);
        return authorizer.authorize(context, List.of(action)).get(0) == AuthorizationResult.ALLOWED;
    }

    private record Context(String user, InetAddress address) implements AuthorizableRequestContext {
        public String listenerName() {
            return "PLAINTEXT";
        }

        public SecurityProtocol securityProtocol() {
            return SecurityProtocol.PLAINTEXT;
        }

        public KafkaPrincipal principal() {
            return new KafkaPrincipal("User", user);
        }

        public InetAddress clientAddress() {
            return address;
        }

        public int requestType() {
            return 0;
        }

        public int requestVersion() {
            return 9;
        }

        public String clientId() {
            return "client";
        }

        public int correlationId() {
            return 1;
        }
    }
}
