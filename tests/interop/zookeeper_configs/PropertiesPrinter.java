import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;
import java.util.Properties;

/** Prints the properties in the files 0, 1, … of a directory, one a line, in UTF-16 as hexadecimal. */
public class PropertiesPrinter {
    public static void main(String[] args) throws Exception {
        for (int i = 0; i < Integer.parseInt(args[1]); i++) {
            StringBuilder line = new StringBuilder("read");
            Properties read = new Properties();
            try (InputStream file = Files.newInputStream(Path.of(args[0], String.valueOf(i)))) {
                read.load(file);
                for (String key : read.stringPropertyNames()) {
                    line.append(" ").append(hex(key)).append(" ").append(hex(read.getProperty(key)));
                }
            } catch (IllegalArgumentException refused) {
                line = new StringBuilder("refused");
            }
            System.out.println(line);
        }
    }

    private static String hex(String text) {
        return HexFormat.of().formatHex(text.getBytes(StandardCharsets.UTF_16BE));
    }
}
