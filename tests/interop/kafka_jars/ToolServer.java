import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;

import org.apache.kafka.common.utils.Exit;

/**
 * Runs the main methods of Kafka's command line tools one after the other in one JVM.  A line of input is a call: the
 * tool's standard input in base64, its class and its arguments, divided by \1.  A line of output is the result:
 * the exit code, then standard output and standard error in base64.
 */
public class ToolServer {
    private static class Left extends Error {
    }

    /** The exit of the running tool: some tools catch the exception that ends them, and exit again. */
    private static int[] first;
    private static final ByteArrayOutputStream OUT = new ByteArrayOutputStream();
    private static final ByteArrayOutputStream ERR = new ByteArrayOutputStream();

    private static void exits(int code) {
        if (first == null) {
            System.out.flush();
            System.err.flush();
            first = new int[] {code, OUT.size(), ERR.size()};
        }
    }

    public static void main(String[] ignored) throws Exception {
        Exit.setExitProcedure((code, message) -> {
            exits(code);
            throw new Left();
        });
        PrintStream answers = System.out;
        BufferedReader calls = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Base64.Encoder base64 = Base64.getEncoder();
        for (String line = calls.readLine(); line != null; line = calls.readLine()) {
            String[] parts = line.split("\1", -1);
            OUT.reset();
            ERR.reset();
            first = null;
            System.setIn(new ByteArrayInputStream(Base64.getDecoder().decode(parts[0])));
            System.setOut(new PrintStream(OUT, true, StandardCharsets.UTF_8));
            System.setErr(new PrintStream(ERR, true, StandardCharsets.UTF_8));
            scala.Console$.MODULE$.withOut(System.out, () -> scala.Console$.MODULE$.withErr(System.err, () -> {
                exits(call(parts[1], Arrays.copyOfRange(parts, 2, parts.length)));
                return null;
            }));
            byte[] out = Arrays.copyOf(OUT.toByteArray(), first[1]);
            byte[] err = Arrays.copyOf(ERR.toByteArray(), first[2]);
            answers.println(first[0] + " " + base64.encodeToString(out) + " " + base64.encodeToString(err));
            answers.flush();
        }
    }

    private static int call(String tool, String[] arguments) {
        try {
            Class.forName(tool).getMethod("main", String[].class).invoke(null, (Object) arguments);
            return 0;
        } catch (InvocationTargetException left) {
            if (left.getCause() instanceof Left)
                return first[0];
            left.getCause().printStackTrace();
            return 1;
        } catch (ReflectiveOperationException wrong) {
            wrong.printStackTrace();
            return 99;
        }
    }
}
