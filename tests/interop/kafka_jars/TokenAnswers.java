import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

import javax.security.auth.login.AppConfigurationEntry;
import javax.security.sasl.SaslException;

import org.apache.kafka.common.errors.SaslAuthenticationException;
import org.apache.kafka.common.security.auth.AuthenticateCallbackHandler;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler;
import org.apache.kafka.common.security.oauthbearer.internals.OAuthBearerSaslServer;
import org.apache.kafka.common.security.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler;

/**
 * Asks Kafka's OAuthBearerSaslServer. Each line of standard input has the kind of tokens, the options of their handler
 * and the client's messages in Base64, separated by tabs; each line of the output is the outcome of the last message.
 */
public class TokenAnswers {
    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] parts = line.split("\t", -1);
            AuthenticateCallbackHandler handler = handler(parts[0], parts[1]);
            System.out.println("answer " + outcome(new OAuthBearerSaslServer(handler), parts[2].split(",")));
            handler.close();
        }
    }

    private static AuthenticateCallbackHandler handler(String kind, String options) {
        Map<String, Object> configs = new HashMap<>();
        configs.put("sasl.oauthbearer.scope.claim.name", "scope");
        configs.put("sasl.oauthbearer.sub.claim.name", "sub");
        configs.put("sasl.oauthbearer.clock.skew.seconds", 30);
        Map<String, String> login = new HashMap<>();
        for (String option : options.split(";")) {
            int at = option.indexOf('=');
            if (at < 0)
                continue;
            String name = option.substring(0, at), value = option.substring(at + 1);
            if (kind.equals("unsecured"))
                login.put(name, value);
            else if (name.endsWith("clock.skew.seconds"))
                configs.put(name, Integer.valueOf(value));
            else if (name.endsWith("expected.audience"))
                configs.put(name, List.of(value.split(",")));
            else
                configs.put(name, value);
        }
        AuthenticateCallbackHandler handler = kind.equals("unsecured")
            ? new OAuthBearerUnsecuredValidatorCallbackHandler() : new OAuthBearerValidatorCallbackHandler();
        handler.configure(configs, "OAUTHBEARER", List.of(new AppConfigurationEntry(
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
            AppConfigurationEntry.LoginModuleControlFlag.REQUIRED, login)));
        return handler;
    }

    private static String outcome(OAuthBearerSaslServer server, String[] messages) {
        byte[] response = {};
        try {
            for (String message : messages)
                response = server.evaluateResponse(Base64.getDecoder().decode(message));
        } catch (SaslAuthenticationException refused) {
            return "refused " + refused.getMessage();
        } catch (SaslException invalid) {
            return "invalid " + invalid.getMessage();
        } catch (RuntimeException failed) {
            return "failed " + failed;
        }
        if (response.length > 0)
            return "error " + new String(response, StandardCharsets.UTF_8);
        return "complete " + server.getAuthorizationID() + " " + server.getNegotiatedProperty("CREDENTIAL.LIFETIME.MS");
    }
}
