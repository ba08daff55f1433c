/** A loopback proxy in front of Postgres, to take the network away from a pool and give it back. */
import { once } from "node:events";
import { connect, createServer, type Server, type Socket } from "node:net";
import { freePort } from "../free-port.js";

export interface TcpProxy {
  /** The connection string given, with the proxy's address in it. */
  readonly connectionString: string;
  /** Breaks every connection and refuses new ones. */
  refuse(): Promise<void>;
  /** Keeps connections and accepts new ones, but forwards nothing. */
  hang(): void;
  /** Silences every open connection; new ones work. */
  forget(): void;
  /** Forwards again; optionally to another server from now on. */
  restore(target?: string): Promise<void>;
  stop(): Promise<void>;
}

export async function startTcpProxy(connectionString: string): Promise<TcpProxy> {
  const open = new Set<Socket>();
  const pairs = new Set<{ silent: boolean }>();
  let target = new URL(connectionString);
  let hanging = false;
  let server: Server | null = null;
  // Nobody takes it while the proxy refuses.
  const port = await freePort();

  const accept = (near: Socket): void => {
    const pair = { silent: false };
    pairs.add(pair);
    const far = connect(Number(target.port), target.hostname);
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      open.add(from);
      from.on("data", (chunk) => {
        if (!hanging && !pair.silent) {
          to.write(chunk);
        }
      });
      from.on("error", () => to.destroy());
      from.on("close", () => {
        open.delete(from);
        to.destroy();
      });
    }
  };
  const listen = async (): Promise<void> => {
    server = createServer(accept);
    server.listen(port, "127.0.0.1");
    await once(server, "listening");
  };
  const close = async (): Promise<void> => {
    if (server === null) {
      return;
    }
    const closed = once(server, "close");
    server.close();
    for (const socket of open) {
      socket.destroy();
    }
    server = null;
    await closed;
  };
  await listen();
  const url = new URL(connectionString);
  url.hostname = "127.0.0.1";
  url.port = String(port);
  return {
    connectionString: url.href,
    refuse: close,
    hang() {
      hanging = true;
    },
    forget() {
      for (const pair of pairs) {
        pair.silent = true;
      }
    },
    async restore(to) {
      if (to !== undefined) {
        target = new URL(to);
      }
      // Swallowed bytes are lost, so connections of the silent time are broken.
      if (hanging) {
        for (const socket of open) {
          socket.destroy();
        }
      }
      hanging = false;
      if (server === null) {
        await listen();
      }
    },
    stop: close,
  };
}
