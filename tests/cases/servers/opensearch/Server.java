import java.nio.file.Path;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import org.opensearch.common.settings.Settings;
import org.opensearch.env.Environment;
import org.opensearch.node.InternalSettingsPreparer;
import org.opensearch.node.Node;
import org.opensearch.transport.Netty4Plugin;

public class Server extends Node {
    private Server(Environment environment) {
        super(environment, List.of(Netty4Plugin.class), false);
    }

    public static void main(String[] arguments) throws Exception {
        Settings.Builder settings = Settings.builder()
            .put("path.home", "/usr/share/opensearch")
            .put("node.name", "server")
            .put("network.host", "0.0.0.0")
            .put("http.port", "9200")
            .put("transport.type", "netty4")
            .put("http.type", "netty4");
        for (Map.Entry<String, String> variable : System.getenv().entrySet()) {
            if (variable.getKey().matches("[a-z0-9_]+\\.[a-z0-9_.]+")) {
                settings.put(variable.getKey(), variable.getValue());
            }
        }
        Environment environment = InternalSettingsPreparer.prepareEnvironment(
            settings.build(), Collections.emptyMap(), Path.of("/usr/share/opensearch/config"), () -> "server");
        new Server(environment).start();
        new CountDownLatch(1).await();  // its own threads do not keep the program running
    }
}
