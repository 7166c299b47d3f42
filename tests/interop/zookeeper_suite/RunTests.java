import static org.junit.platform.engine.discovery.DiscoverySelectors.selectClass;

import java.util.Arrays;
import java.util.Set;

import org.junit.platform.engine.FilterResult;
import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.engine.TestSource;
import org.junit.platform.engine.support.descriptor.MethodSource;
import org.junit.platform.launcher.Launcher;
import org.junit.platform.launcher.LauncherDiscoveryRequest;
import org.junit.platform.launcher.PostDiscoveryFilter;
import org.junit.platform.launcher.TestExecutionListener;
import org.junit.platform.launcher.TestIdentifier;
import org.junit.platform.launcher.core.LauncherDiscoveryRequestBuilder;
import org.junit.platform.launcher.core.LauncherFactory;

/**
 * Runs the tests of one class except the methods listed after it.  A line of output for each: FOUND and a method's
 * name, then PASSED, SKIPPED or FAILED, a method's name and the exception, separated by tabs.
 */
public class RunTests implements TestExecutionListener {
    public static void main(String[] arguments) {
        Set<String> leftOut = Set.of(Arrays.copyOfRange(arguments, 1, arguments.length));
        PostDiscoveryFilter filter = found -> {
            String method = found.getSource().map(RunTests::method).orElse(null);
            if (method == null) {
                return FilterResult.included("a class");
            }
            System.out.println("FOUND\t" + method);
            return FilterResult.includedIf(!leftOut.contains(method));
        };
        LauncherDiscoveryRequest request = LauncherDiscoveryRequestBuilder.request()
            .selectors(selectClass(arguments[0])).filters(filter).build();
        Launcher launcher = LauncherFactory.create();
        launcher.execute(request, new RunTests());
        System.exit(0);
    }

    private static String method(TestSource source) {
        return source instanceof MethodSource ? ((MethodSource) source).getMethodName() : null;
    }

    @Override
    public void executionSkipped(TestIdentifier test, String reason) {
        say("SKIPPED", test, reason);
    }

    @Override
    public void executionFinished(TestIdentifier test, TestExecutionResult result) {
        boolean failed = result.getStatus() == TestExecutionResult.Status.FAILED;
        if (test.isTest() || failed) {
            String thrown = result.getThrowable().map(Throwable::toString).orElse("");
            boolean passed = result.getStatus() == TestExecutionResult.Status.SUCCESSFUL;
            String outcome = failed ? "FAILED" : passed ? "PASSED" : "SKIPPED";
            say(outcome, test, thrown);
        }
    }

    private static void say(String outcome, TestIdentifier test, String why) {
        String method = test.getSource().map(RunTests::method).orElse(test.getDisplayName());
        System.out.println(outcome + "\t" + method + "\t" + why.replaceAll("\\s+", " "));
        System.out.flush();
    }
}
