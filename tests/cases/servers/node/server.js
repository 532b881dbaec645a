// Processes as WEB_CONCURRENCY says, one without it.
const cluster = require("cluster");
const http = require("http");

const processes = Number(process.env.WEB_CONCURRENCY || 1);
if (processes > 1 && cluster.isPrimary) {
  for (let i = 0; i < processes; i++) cluster.fork();
} else {
  http.createServer((request, response) => response.end("ok\n")).listen(3000);
}
process.on("SIGTERM", () => process.exit(0));
