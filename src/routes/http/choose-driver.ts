/**
 * Chooses the driver of a listener (`SVC_HTTP_DRIVER`). uWebSockets.js is the faster one; but the
 * binaries for C libraries below glibc 2.38 were built before 2024 and misread requests that every
 * client may send: a request line that arrives in two packets is refused, and a field name such as
 * `api_key` is never answered. Then addresses off loopback use the other driver.
 */
import { once } from "node:events";
import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

import { atMost } from "../../runtime/at-most.js";
import { ServiceError } from "../../runtime/errors.js";
import type { Logger } from "../../runtime/log/log.js";
import { isLoopbackHost } from "telemetry-service-client/shared/loopback";
import { writeAnswer } from "./answer.js";
import type { HttpDriver, HttpHandler } from "./seam.js";
import { listenUws, loadUws } from "./uws.js";

/** What an operator asks for. */
export type HttpDriverChoice = "auto" | HttpDriver;

/**
 * The driver for an address. `auto` takes `uws`, except where no binary fits, and where the binary misreads
 * requests and the address is not a loopback one.
 * @throws ServiceError NOT_CONFIGURED when `uws` was asked for and no binary fits.
 */
export async function chooseDriver(choice: HttpDriverChoice, host: string, logger: Logger): Promise<HttpDriver> {
  if (choice === "node") {
    return "node";
  }
  if (choice === "uws") {
    await loadUws();
    return "uws";
  }
  let problem: string | null = null;
  try {
    await loadUws();
    if (isLoopbackHost(host)) {
      return "uws";
    }
    problem = await uwsProblem(logger);
  } catch (error) {
    if (!(error instanceof ServiceError) || error.code !== "NOT_CONFIGURED") {
      throw error;
    }
    problem = "there is no binary of uWebSockets.js for this platform";
  }
  if (problem === null) {
    return "uws";
  }
  logger.info({ host, driver: "node" }, `node:http serves ${host}: ${problem}`);
  return "node";
}

let known: Promise<string | null> | null = null;

/** Null, or what the loaded binary gets wrong; asked once in a process. */
function uwsProblem(logger: Logger): Promise<string | null> {
  known ??= testUws(logger);
  return known;
}

const answerMs = 1000;

async function testUws(logger: Logger): Promise<string | null> {
  const handler: HttpHandler = {
    handle: (reply) => {
      writeAnswer(reply, { status: 200, headers: [], body: "" });
    },
    malformed: (reply) => {
      reply.close();
    },
  };
  const listener = await listenUws({
    host: "127.0.0.1",
    port: 0,
    maxConnections: 8,
    routes: new Map(),
    fallback: handler,
    purpose: "a self-test",
    option: "SVC_HTTP_DRIVER",
    logger,
  });
  const { port } = listener.address;
  try {
    if (!(await answers(port, ["GET / HT", "TP/1.1\r\nHost: localhost\r\n\r\n"]))) {
      return "this binary of uWebSockets.js refuses requests that arrive in pieces";
    }
    if (!(await answers(port, ["GET / HTTP/1.1\r\nHost: localhost\r\napi_key: z\r\n\r\n"]))) {
      return "this binary of uWebSockets.js does not answer requests with fields such as api_key";
    }
    return null;
  } finally {
    await listener.stop();
  }
}

/** Whether a request that is sent in those pieces gets 200. */
async function answers(port: number, pieces: readonly string[]): Promise<boolean> {
  const socket = connect({ host: "127.0.0.1", port, noDelay: true });
  let received = "";
  socket.setEncoding("latin1");
  socket.on("error", () => undefined);
  const settled = new Promise<void>((resolve) => {
    socket.on("data", (text: string) => {
      received += text;
      resolve();
    });
    socket.on("close", () => {
      resolve();
    });
  });
  try {
    await once(socket, "connect");
    for (const [i, piece] of pieces.entries()) {
      if (i > 0) {
        await sleep(10);
      }
      socket.write(piece);
    }
    await atMost(settled, answerMs);
    return received.startsWith("HTTP/1.1 200 ");
  } finally {
    socket.destroy();
  }
}
