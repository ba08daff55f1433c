/** A bare uWebSockets.js server that reads and drops bodies: the yardstick of ingest.small. */
import uWS from "uWebSockets.js";

uWS
  .App()
  .post("/*", (response) => {
    response.onAborted(() => undefined);
    response.onData((_chunk, isLast) => {
      if (isLast) {
        response.cork(() => response.end());
      }
    });
  })
  .listen("127.0.0.1", 0, (token) => {
    if (token === false) {
      throw new Error("the bare front end could not listen");
    }
    process.stdout.write(`http://127.0.0.1:${uWS.us_socket_local_port(token)}/\n`);
  });
