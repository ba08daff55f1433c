import { describe, expect, test } from "vitest";

import { chooseDriver } from "../../../src/routes/http/choose-driver.js";
import type { Logger } from "../../../src/runtime/log/log.js";
import { RawConnection } from "../../helpers/http/raw-http.js";
import { startListener } from "../../helpers/http/http-listener.js";
import { writeAnswer } from "../../../src/routes/http/answer.js";

function createLog(): { readonly lines: string[]; readonly logger: Logger } {
  const lines: string[] = [];
  const logger = {
    info: (_: unknown, line: string) => lines.push(line),
    error: (_: unknown, line: string) => lines.push(line),
  } as unknown as Logger;
  return { lines, logger };
}

/** Whether the binary that is loaded here takes a request line in two pieces. */
async function takesSplitLines(): Promise<boolean> {
  const listener = await startListener("uws", (reply) => {
    writeAnswer(reply, { status: 200, headers: [], body: "" });
  });
  const connection = await RawConnection.open(listener.address.port);
  connection.send("GET /x HT");
  await new Promise((resolve) => setTimeout(resolve, 50));
  connection.send("TP/1.1\r\nHost: localhost\r\n\r\n");
  const { responses } = await connection.settle();
  connection.close();
  await listener.stop();
  return responses[0]?.status === 200;
}

describe("SVC_HTTP_DRIVER", () => {
  test("auto takes uws on loopback without a word", async () => {
    for (const host of ["127.0.0.1", "localhost", "::1"]) {
      const { lines, logger } = createLog();
      expect(await chooseDriver("auto", host, logger)).toBe("uws");
      expect(lines).toEqual([]);
    }
  });

  test("auto takes node for strangers where the binary misreads requests, and says why", async () => {
    const { lines, logger } = createLog();
    const driver = await chooseDriver("auto", "0.0.0.0", logger);
    const good = await takesSplitLines();
    const line = "node:http serves 0.0.0.0: this binary of uWebSockets.js";
    expect([driver, lines.map((text) => text.startsWith(line))]).toEqual(good ? ["uws", []] : ["node", [true]]);
  });

  test("a driver that is named is taken as it is", async () => {
    const { lines, logger } = createLog();
    expect(await chooseDriver("uws", "0.0.0.0", logger)).toBe("uws");
    expect(await chooseDriver("node", "127.0.0.1", logger)).toBe("node");
    expect(lines).toEqual([]);
  });
});
