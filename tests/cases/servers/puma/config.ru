run ->(_environment) { [200, { "content-type" => "text/plain" }, ["ok\n"]] }
