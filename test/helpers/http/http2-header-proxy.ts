/**
 * A proxy that adds a header to every request of an HTTP/2 connection. Client libraries refuse to send a field
 * twice, so the field goes into their frames on the way (RFC 9113, "HEADERS"; RFC 7541, "Literal Header Field
 * without Indexing", which leaves the tables of both sides alone).
 */
import { type AddressInfo, connect, createServer, type Socket } from "node:net";

const prefaceBytes = 24;
const frameHeaderBytes = 9;
const headersFrame = 1;

/** Where it listens, and its end. */
interface HeaderProxy {
  readonly port: number;
  stop(): Promise<void>;
}

/** Starts one in front of a port of this machine. The name is lower case; both are shorter than 127 bytes. */
export async function startHeaderProxy(port: number, name: string, value: string): Promise<HeaderProxy> {
  const literal = Buffer.concat([
    Buffer.from([0, name.length]),
    Buffer.from(name),
    Buffer.from([value.length]),
    Buffer.from(value),
  ]);
  const sockets = new Set<Socket>();
  const server = createServer((client) => {
    const upstream = connect(port, "127.0.0.1");
    let pending: Buffer = Buffer.alloc(0);
    let started = false;
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on("error", () => client.destroy());
      socket.on("close", () => {
        client.destroy();
        upstream.destroy();
      });
    }
    client.on("data", (data) => {
      pending = Buffer.concat([pending, data]);
      if (!started) {
        if (pending.length < prefaceBytes) {
          return;
        }
        started = true;
        upstream.write(pending.subarray(0, prefaceBytes));
        pending = pending.subarray(prefaceBytes);
      }
      while (pending.length >= frameHeaderBytes) {
        const bytes = frameHeaderBytes + pending.readUIntBE(0, 3);
        if (pending.length < bytes) {
          return;
        }
        const frame = Buffer.from(pending.subarray(0, bytes));
        pending = pending.subarray(bytes);
        if (frame[3] === headersFrame) {
          frame.writeUIntBE(bytes - frameHeaderBytes + literal.length, 0, 3);
          upstream.write(Buffer.concat([frame, literal]));
        } else {
          upstream.write(frame);
        }
      }
    });
    upstream.pipe(client);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    port: (server.address() as AddressInfo).port,
    stop: () => {
      for (const socket of sockets) {
        socket.destroy();
      }
      return new Promise((resolve) => {
        server.close(() => {
          resolve();
        });
      });
    },
  };
}
