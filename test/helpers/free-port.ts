import { once } from "node:events";
import { createServer } from "node:net";

/**
 * A port of 127.0.0.1 on which nothing listens. It lies below those that systems give to whoever asks for any port:
 * nobody else takes it before the test does.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = 12_000 + Math.floor(Math.random() * 20_000);
    const server = createServer().listen(port, "127.0.0.1");
    try {
      await once(server, "listening");
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "EADDRINUSE") {
        continue;
      }
      throw error;
    }
    server.close();
    await once(server, "close");
    return port;
  }
}
