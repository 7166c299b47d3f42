import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

import javax.security.auth.callback.Callback;
import javax.security.auth.login.AppConfigurationEntry;
import javax.security.auth.login.Configuration;

import org.apache.kafka.common.security.auth.AuthenticateCallbackHandler;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerToken;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerTokenCallback;
import org.apache.kafka.common.security.oauthbearer.internals.OAuthBearerSaslClient;
import org.apache.kafka.common.security.oauthbearer.internals.expiring.ExpiringCredential;
import org.apache.kafka.common.security.oauthbearer.internals.expiring.ExpiringCredentialRefreshConfig;
import org.apache.kafka.common.security.oauthbearer.internals.expiring.ExpiringCredentialRefreshingLogin;
import org.apache.kafka.common.security.oauthbearer.internals.unsecured.OAuthBearerUnsecuredLoginCallbackHandler;

/**
 * Asks Kafka's classes of a client's login with OAUTHBEARER. Each line of standard input has a kind and its values,
 * separated by tabs; each line of the output is the answer.
 */
public class LoginAnswers {
    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] parts = line.split("\t", -1);
            String answer;
            try {
                answer = parts[0].equals("refresh") ? refreshMs(parts) : firstMessage(parts);
            } catch (Exception refused) {
                answer = "refused " + refused;
            }
            System.out.println("answer " + answer.replace('\n', ' '));
        }
    }

    /** Values: the options of the login module, and the configuration of the handler. */
    private static String firstMessage(String[] parts) throws Exception {
        Map<String, Object> configs = new HashMap<>(Map.of(
            "sasl.oauthbearer.scope.claim.name", "scope", "sasl.oauthbearer.sub.claim.name", "sub",
            "sasl.login.retry.backoff.ms", 10L, "sasl.login.retry.backoff.max.ms", 100L));
        for (Map.Entry<String, String> entry : pairs(parts[2]).entrySet())
            configs.put(entry.getKey(), entry.getKey().endsWith("urlencode") ? (Object) true : entry.getValue());
        AuthenticateCallbackHandler handler = parts[0].equals("unsecured")
            ? new OAuthBearerUnsecuredLoginCallbackHandler() : new OAuthBearerLoginCallbackHandler();
        handler.configure(configs, "OAUTHBEARER", List.of(new AppConfigurationEntry(
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
            AppConfigurationEntry.LoginModuleControlFlag.REQUIRED, pairs(parts[1]))));
        OAuthBearerTokenCallback callback = new OAuthBearerTokenCallback();
        handler.handle(new Callback[] {callback});
        OAuthBearerToken token = callback.token();
        if (token == null)
            return "refused " + callback.errorDescription();
        String start = parts[0].equals("unsecured") ? "" : String.valueOf(token.startTimeMs());
        String end = parts[0].equals("unsecured") ? "" : String.valueOf(token.lifetimeMs());
        if (parts[0].equals("http"))
            return "token " + token.value();
        byte[] message = new OAuthBearerSaslClient(handler).evaluateChallenge(new byte[0]);
        return String.join(" ", "message", Base64.getEncoder().encodeToString(message), token.principalName(), start, end);
    }

    private static Map<String, String> pairs(String text) {
        Map<String, String> found = new HashMap<>();
        for (String pair : text.split("\u001f")) {
            int at = pair.indexOf('=');
            if (at >= 0)
                found.put(pair.substring(0, at), pair.substring(at + 1));
        }
        return found;
    }

    /** Values: factor, minimum period, buffer, the time, and the begin (or -) and end of the token. */
    private static String refreshMs(String[] parts) throws Exception {
        Map<String, Object> configs = Map.of(
            "sasl.login.refresh.window.factor", Double.valueOf(parts[1]), "sasl.login.refresh.window.jitter", 0.0,
            "sasl.login.refresh.min.period.seconds", Short.valueOf(parts[2]),
            "sasl.login.refresh.buffer.seconds", Short.valueOf(parts[3]));
        Long begin = parts[5].equals("-") ? null : Long.valueOf(parts[5]);
        long end = Long.parseLong(parts[6]);
        ExpiringCredential credential = new ExpiringCredential() {
            @Override public String principalName() { return "alice"; }
            @Override public Long startTimeMs() { return begin; }
            @Override public long expireTimeMs() { return end; }
            @Override public Long absoluteLastRefreshTimeMs() { return null; }
        };
        ExpiringCredentialRefreshingLogin login = new ExpiringCredentialRefreshingLogin(
                "context", new Nothing(), new ExpiringCredentialRefreshConfig(configs, true), null, Object.class) {
            @Override public ExpiringCredential expiringCredential() { return credential; }
        };
        Field field = ExpiringCredentialRefreshingLogin.class.getDeclaredField("expiringCredential");
        field.setAccessible(true);
        field.set(login, credential);
        Method method = ExpiringCredentialRefreshingLogin.class.getDeclaredMethod("refreshMs", long.class);
        method.setAccessible(true);
        return String.valueOf(method.invoke(login, Long.parseLong(parts[4])));
    }

    private static class Nothing extends Configuration {
        @Override public AppConfigurationEntry[] getAppConfigurationEntry(String name) { return null; }
    }
}
