import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, it, onTestFinished } from "vitest";

import { connect } from "../../src/flight/flight-sql-client.js";

it.each([
  ["grpc+tls", "TLS", "grpc://"],
  ["grpc", "gRPC", "grpc+tls://"],
])(
  "%s:// says that something else answers there, and what to try, without a warning of Node.js",
  async (scheme, spoken, other) => {
    const warnings: Error[] = [];
    const warned = (warning: Error): number => warnings.push(warning);
    process.on("warning", warned);
    onTestFinished(() => void process.off("warning", warned));
    const server = createServer((_, response) => response.end());
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const target = `127.0.0.1:${(server.address() as AddressInfo).port}`;
    const client = connect({ uri: `${scheme}://${target}` });
    await expect(client.sqlInfo(0)).rejects.toMatchObject({
      code: "UNAVAILABLE",
      message: `something answers at ${target}, but not with ${spoken}`,
      advice: `check the port; is it ${other}?`,
      unreachable: true,
    });
    client.close();
    server.close();
    expect(warnings).toEqual([]);
  },
);
