package example;

import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.RestController;

@SpringBootApplication
@RestController
public class Application {
    private final JdbcTemplate database;

    public Application(JdbcTemplate database) {
        this.database = database;
    }

    @GetMapping("/")
    public Integer root() {
        return database.queryForObject("select 1", Integer.class);
    }

    public static void main(String[] arguments) {
        SpringApplication.run(Application.class, arguments);
    }
}
