/** What every driver of the HTTP seam does alike, over raw sockets. */
import { connect, type Socket } from "node:net";

import { afterEach, describe, expect, test, vi } from "vitest";

import { answerNow, writeAnswer } from "../../../src/routes/http/answer.js";
import { BodyExchange } from "../../../src/routes/http/body-exchange.js";
import type { HttpHandler, HttpListener, HttpReply } from "../../../src/routes/http/seam.js";
import { drivers, startListener } from "../../helpers/http/http-listener.js";
import { RawConnection, rawRequest } from "../../helpers/http/raw-http.js";
import { until } from "../../helpers/until.js";

const maxBodyBytes = 1000;

let listener: HttpListener | null = null;

afterEach(async () => {
  vi.useRealTimers();
  await listener?.stop();
  listener = null;
});

/** Answers with the body it got; 413 beyond the limit. */
const echo: HttpHandler["handle"] = (reply, request, head) => {
  const isHead = request.getCaseSensitiveMethod() === "HEAD";
  const exchange = new BodyExchange(reply, head, maxBodyBytes, isHead);
  exchange.resume();
  void answerWithBody(exchange);
};

function askAndReadNothing(port: number): Socket {
  const socket = connect({ host: "127.0.0.1", port });
  socket.on("error", () => undefined);
  socket.pause();
  socket.write(request("GET", "/x"));
  return socket;
}

/** Waits until a count has begun to grow, and stopped. */
async function standsStill(count: () => number): Promise<void> {
  let before = -1;
  await until(() => {
    const now = count();
    const settled = now > 0 && now === before;
    before = now;
    return settled;
  });
}

async function answerWithBody(exchange: BodyExchange): Promise<void> {
  const outcome = await exchange.body();
  if (outcome.kind === "aborted") {
    return;
  }
  const status = outcome.kind === "complete" ? 200 : outcome.error.httpStatus;
  const body = outcome.kind === "complete" ? outcome.bytes : "";
  exchange.answer({ status, headers: [], body });
}

function request(method: string, path: string, fields: readonly string[] = []): string {
  return `${[`${method} ${path} HTTP/1.1`, "Host: localhost", ...fields].join("\r\n")}\r\n\r\n`;
}

/** The status of the first request that is answered at all: others may hold every connection yet. */
async function firstStatus(port: number): Promise<number | undefined> {
  let status: number | undefined;
  await until(async () => {
    const { responses } = await rawRequest(port, [request("GET", "/x")]).catch(() => ({
      responses: [],
    }));
    status = responses[0]?.status;
    return status !== undefined;
  });
  return status;
}

describe.each(drivers)("%s", (driver) => {
  async function start(handle: HttpHandler["handle"], maxConnections?: number): Promise<number> {
    listener = await startListener(driver, handle, maxConnections);
    return listener.address.port;
  }

  test("HEAD is answered as GET, without the body, and the connection goes on", async () => {
    const port = await start((reply, req) => {
      const isHead = req.getCaseSensitiveMethod() === "HEAD";
      writeAnswer(reply, { status: 200, headers: [["X-A", "b"]], body: "hello" }, isHead);
    });
    const connection = await RawConnection.open(port);
    for (const path of ["/", "/health", "/ready", "/metrics"]) {
      connection.send(request("HEAD", path));
    }
    connection.send(request("GET", "/"));
    await until(() => connection.received.toString().endsWith("hello"));
    const text = connection.received.toString();
    expect(text.match(/HTTP\/1.1 200 OK/g)).toHaveLength(5);
    expect(text.match(/\r\n\r\n(?!HTTP|$)/g)).toHaveLength(1);
    expect(text).toContain("Content-Length: 5");
    connection.close();
  });

  test("204 has no Content-Length and no body", async () => {
    const port = await start((reply) => {
      writeAnswer(reply, { status: 204, headers: [], body: "" });
    });
    const connection = await RawConnection.open(port);
    connection.send(request("DELETE", "/x") + request("DELETE", "/y"));
    await until(() => connection.received.toString().split("HTTP/1.1 204").length === 3);
    expect(connection.received.toString()).not.toMatch(/content-length|transfer-encoding/i);
    connection.close();
  });

  test.each(["POST", "DELETE", "PUT", "OPTIONS"])("health takes no %s", async (method) => {
    const port = await start(echo);
    const { responses } = await rawRequest(port, [request(method, "/health")]);
    expect(responses[0]?.status).toBe(405);
    expect(responses[0]?.headers["allow"]).toBe("GET, HEAD");
  });

  test.each([
    ["Transfer-Encoding: xchunked"],
    ["Transfer-Encoding: identity"],
    ["Transfer-Encoding: chunked", "Transfer-Encoding: chunked"],
    ["Content-Length: 1", "Content-Length: 1"],
    ["Content-Length: "],
    ["Content-Length: 1", "Transfer-Encoding: chunked"],
    ["Host: other"],
  ])("health refuses %s %s and ends the connection", async (...fields) => {
    const port = await start(echo);
    const { responses, closed } = await rawRequest(port, [request("GET", "/health", fields)], 500);
    expect(responses.map(({ status }) => status)).toEqual([400]);
    expect(closed).toBe(true);
  });

  test("Connection: close ends the connection", async () => {
    const port = await start(echo);
    for (const path of ["/health", "/metrics", "/x"]) {
      const fields = ["Connection: close"];
      const { responses, closed } = await rawRequest(port, [request("GET", path, fields)], 500);
      expect([path, responses[0]?.status, closed]).toEqual([path, 200, true]);
    }
  });

  test("a Host that is neither a name nor an address is refused", async () => {
    const port = await start(echo);
    for (const host of ["a b", "a/b", "[::1", "user@host"]) {
      const { responses } = await rawRequest(port, [`GET /x HTTP/1.1\r\nHost: ${host}\r\n\r\n`]);
      expect([host, responses[0]?.status]).toEqual([host, 400]);
    }
    for (const host of ["localhost", "localhost:80", "[::1]:80", "10.0.0.1", "a_b.example"]) {
      const { responses } = await rawRequest(port, [`GET /x HTTP/1.1\r\nHost: ${host}\r\n\r\n`]);
      expect([host, responses[0]?.status]).toEqual([host, 200]);
    }
  });

  test("a body within the limit arrives whole, one beyond it is 413", async () => {
    const port = await start(echo);
    const body = "x".repeat(maxBodyBytes);
    const sized = (text: string): string => request("POST", "/x", [`Content-Length: ${text.length}`]) + text;
    const within = await rawRequest(port, [sized(body)]);
    expect(within.responses[0]?.body.toString()).toBe(body);
    const beyond = await rawRequest(port, [sized(`${body}y`)]);
    expect(beyond.responses[0]?.status).toBe(413);
  });

  test("a body that does not come whole within 30 seconds gets 503, and its connection ends", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "setInterval", "clearInterval"] });
    let begun = (): void => undefined;
    const reading = new Promise<void>((resolve) => {
      begun = resolve;
    });
    const port = await start((...given) => {
      echo(...given);
      begun();
    });
    const connection = await RawConnection.open(port);
    connection.send(`${request("POST", "/x", ["Content-Length: 1000"])}a`);
    await reading;
    vi.advanceTimersByTime(30_000);
    const { responses } = await connection.ended();
    expect(responses.map(({ status }) => status)).toEqual([503]);
  });

  test("a body on a slow line arrives whole", async () => {
    const port = await start(echo);
    const connection = await RawConnection.open(port);
    const length = 15;
    connection.send(request("POST", "/x", [`Content-Length: ${length}`]));
    for (let sent = 0; sent < length; sent++) {
      await new Promise((resolve) => setTimeout(resolve, 1000));
      connection.send("a");
    }
    const { responses } = await connection.settle();
    expect(responses[0]?.body.toString()).toBe("a".repeat(length));
    connection.close();
  });

  test.each(["/health", "/ready", "/metrics", "/x"])("%s drops no body without a bound", async (path) => {
    const port = await start((reply, req, head) => {
      answerNow(reply, req, head, { status: 404, headers: [], body: "" });
    });
    for (const method of ["GET", "POST"]) {
      const connection = await RawConnection.open(port);
      connection.send(`${request(method, path, ["Content-Length: 100000000"])}a`);
      const { responses } = await connection.ended();
      expect(responses).toHaveLength(1);
    }
  });

  test("a chunked body arrives whole", async () => {
    const port = await start(echo);
    const head = request("POST", "/x", ["Transfer-Encoding: chunked"]);
    const { responses } = await rawRequest(port, [head, "3\r\nabc\r\n", "2\r\nde\r\n0\r\n\r\n"]);
    expect(responses[0]?.body.toString()).toBe("abcde");
  });

  test("streams with backpressure: nothing is made far ahead of a client that does not read", async () => {
    let made = 0;
    let left = false;
    const part = Buffer.alloc(64 * 1024, "x");
    async function* parts(): AsyncGenerator<Uint8Array> {
      try {
        for (; made < 10_000; made++) {
          yield await Promise.resolve(part);
        }
      } finally {
        left = true;
      }
    }
    const port = await start((reply, _request, head) => {
      const exchange = new BodyExchange(reply, head, 0, false);
      void exchange.stream({ status: 200, headers: [["Content-Type", "text/plain"]] }, parts());
    });
    const socket = askAndReadNothing(port);
    await standsStill(() => made);
    expect(made).toBeLessThan(1000);
    expect(left).toBe(false);
    // The client leaves: so does the iteration.
    socket.destroy();
    await until(() => left);
  });

  test("a driver keeps no copy of a large part that a client does not read", async () => {
    const parts = (async function* (): AsyncGenerator<Uint8Array> {
      yield await Promise.resolve(Buffer.alloc(64 << 20, "x"));
    })();
    let given = 0;
    const port = await start((reply, _request, head) => {
      const write = reply.write.bind(reply);
      reply.write = (chunk) => {
        given += chunk.length;
        return write(chunk);
      };
      void new BodyExchange(reply, head, 0, false).stream({ status: 200, headers: [] }, parts);
    });
    const socket = askAndReadNothing(port);
    await standsStill(() => given);
    socket.destroy();
    expect(given).toBeLessThan(32 << 20);
  });

  test.each(["at once", "later"])(
    "answers %s a few of the requests of a client that reads none of them",
    async (when) => {
      const body = Buffer.alloc(1 << 20, " ");
      let answered = 0;
      const port = await start((reply, req, head) => {
        answered++;
        if (when === "at once") {
          answerNow(reply, req, head, { status: 200, headers: [], body });
        } else {
          const exchange = new BodyExchange(reply, head, 0, false);
          void Promise.resolve().then(() => exchange.answer({ status: 200, headers: [], body }));
        }
      });
      const socket = connect({ host: "127.0.0.1", port });
      socket.on("error", () => undefined);
      socket.pause();
      socket.write(request("GET", "/x").repeat(100));
      await standsStill(() => answered);
      expect(answered).toBeLessThan(20);
      socket.destroy();
      const whole = await RawConnection.open(port);
      for (let i = 1; i <= 2; i++) {
        whole.send(request("GET", "/x"));
        const { responses } = await whole.settle(i);
        expect(responses[i - 1]?.body.equals(body)).toBe(true);
      }
      whole.close();
    },
  );

  test("a stream arrives whole and the connection goes on", async () => {
    const part = Buffer.alloc(100_000, "x");
    const port = await start((reply, _request, head) => {
      const exchange = new BodyExchange(reply, head, 0, false);
      const parts = (async function* (): AsyncGenerator<Uint8Array> {
        for (let i = 0; i < 50; i++) {
          yield await Promise.resolve(part);
        }
      })();
      void exchange.stream({ status: 200, headers: [] }, parts);
    });
    for (let i = 0; i < 2; i++) {
      const response = await fetch(`http://127.0.0.1:${port}/x`);
      expect((await response.arrayBuffer()).byteLength).toBe(50 * part.length);
    }
  });

  test("a stream that fails ends as a broken connection, not as a short response", async () => {
    const port = await start((reply, _request, head) => {
      const exchange = new BodyExchange(reply, head, 0, false);
      const parts = (async function* (): AsyncGenerator<Uint8Array> {
        yield await Promise.resolve(Buffer.from("abc"));
        throw new Error("broken");
      })();
      exchange.stream({ status: 200, headers: [] }, parts).catch(() => undefined);
    });
    await expect(fetch(`http://127.0.0.1:${port}/x`).then((response) => response.text())).rejects.toThrow(
      /terminated|fetch failed/u,
    );
  });

  test("keeps no more connections than it may", async () => {
    const port = await start(echo, 3);
    const open = await Promise.all([1, 2, 3].map(() => RawConnection.open(port)));
    for (const connection of open) {
      connection.send(request("GET", "/x"));
    }
    await Promise.all(open.map((connection) => connection.settle()));
    const further = await RawConnection.open(port);
    further.send(request("GET", "/x"));
    await further.ended();
    expect(further.responses).toEqual([]);
    open[0]?.close();
    await until(async () => {
      const { responses } = await rawRequest(port, [request("GET", "/x")]).catch(() => ({
        responses: [],
      }));
      return responses[0]?.status === 200;
    });
    for (const connection of open) {
      connection.close();
    }
  });

  test("ends a connection whose head grows beyond 64 KiB, with 431 or without a word", async () => {
    const port = await start(echo);
    const connection = await RawConnection.open(port);
    connection.send("GET /x HTTP/1.1\r\nHost: a\r\n");
    for (let i = 0; i < 100 && !connection.closed; i++) {
      connection.send(`X-${i}: ${"y".repeat(1000)}\r\n`);
      await new Promise((resolve) => setTimeout(resolve, 2));
    }
    const { responses } = await connection.ended();
    expect([undefined, 431]).toContain(responses[0]?.status);
  });

  test("holds no more heads that never end than it may have connections", async () => {
    const most = 50;
    const port = await start(echo, most);
    const head = `GET /x HTTP/1.1\r\nHost: a\r\na: ${"b".repeat(60_000)}`;
    const open: RawConnection[] = [];
    for (let i = 0; i < 200; i++) {
      const connection = await RawConnection.open(port).catch(() => null);
      if (connection === null) {
        continue;
      }
      connection.send(head);
      open.push(connection);
    }
    await until(() => open.filter(({ closed }) => !closed).length <= most);
    expect(open.filter(({ responses }) => responses.length > 0)).toEqual([]);
    // Who leaves makes room: those that were held are let go of.
    for (const connection of open) {
      connection.close();
    }
    expect(await firstStatus(port)).toBe(200);
  });

  /** Trailers that a lenient parser takes for a request of their own. */
  const trailers = "Xabc: /nope HTTP/1.1\r\nHost: a\r\nzz: c\r\n\r\n";

  test.each(["/x", "/health", "/metrics"])(
    "what follows a chunked request to %s is never answered as a request",
    async (path) => {
      const seen: string[] = [];
      const port = await start((reply, req, head) => {
        seen.push(`${req.getCaseSensitiveMethod()} ${req.getUrl()}`);
        echo(reply, req, head);
      });
      for (const follows of [trailers, request("GET", "/smuggled"), `A: b\r\n\r\n`]) {
        for (const method of ["POST", "GET"]) {
          const head = request(method, path, ["Transfer-Encoding: chunked"]);
          const connection = await RawConnection.open(port);
          connection.send(`${head}2\r\n{}\r\n0\r\n${follows}`);
          await connection.settle();
          if (driver === "uws") {
            await connection.ended();
          }
          // A legal trailer section and nothing else.
          expect(connection.responses.length).toBeLessThanOrEqual(1);
          connection.close();
        }
      }
      expect(seen.filter((line) => !line.endsWith(path) && !line.startsWith("POST"))).toEqual([]);
    },
  );
});

describe("node", () => {
  test("a connection has a bounded number of requests without an answer", async () => {
    const waiting: HttpReply[] = [];
    listener = await startListener("node", (reply) => {
      reply.onAborted(() => undefined);
      waiting.push(reply);
    });
    const connection = await RawConnection.open(listener.address.port);
    connection.send(request("GET", "/x").repeat(16));
    await until(() => waiting.length === 16);
    for (const reply of waiting.splice(0)) {
      writeAnswer(reply, { status: 200, headers: [], body: "" });
    }
    expect((await connection.settle(16)).responses).toHaveLength(16);
    connection.send(request("GET", "/x").repeat(1900));
    expect((await connection.ended()).closed).toBe(true);
    expect(waiting).toHaveLength(16);
  });

  test.each(["/health", "/x"])("ends a connection whose body comes on behind the answer of %s", async (path) => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    listener = await startListener("node", (reply) => {
      writeAnswer(reply, { status: 401, headers: [], body: "" });
    });
    const connection = await RawConnection.open(listener.address.port);
    // The rest of the first one comes in time, and its connection goes on.
    connection.send(`${request("GET", path, ["Content-Length: 2"])}a`);
    await connection.settle(1);
    connection.send(`a${request("GET", path, ["Content-Length: 60000000"])}a`);
    await connection.settle(2);
    await vi.waitFor(() => {
      expect(vi.getTimerCount()).toBe(1);
    });
    vi.advanceTimersByTime(30_000);
    expect((await connection.ended()).responses).toHaveLength(2);
  });

  test("keeps a connection without a request for 75 seconds", async () => {
    listener = await startListener("node", echo);
    const { responses } = await rawRequest(listener.address.port, [request("GET", "/x")]);
    expect(responses[0]?.headers["keep-alive"]).toBe("timeout=75");
  });

  test("takes a request line in two pieces, any legal field name, absolute form and pipelining", async () => {
    listener = await startListener("node", echo);
    const { port } = listener.address;
    const split = await RawConnection.open(port);
    split.send("GET /x HT");
    await new Promise((resolve) => setTimeout(resolve, 20));
    split.send("TP/1.1\r\nHost: localhost\r\n\r\n");
    expect((await split.settle()).responses[0]?.status).toBe(200);
    split.close();
    for (const name of ["api_key", "a.b", "a!#$%&'*+^`|~b"]) {
      const { responses } = await rawRequest(port, [request("GET", "/x", [`${name}: z`])]);
      expect([name, responses[0]?.status]).toEqual([name, 200]);
    }
    const absolute = await rawRequest(port, [request("GET", "http://localhost/health")]);
    expect(absolute.responses[0]?.status).toBe(200);
    const connection = await RawConnection.open(port);
    const post = request("POST", "/x", ["Content-Length: 1"]);
    connection.send(`${post}a${post}b${post}c`);
    const { responses } = await connection.settle(3);
    expect(responses.map(({ body }) => body.toString())).toEqual(["a", "b", "c"]);
    connection.close();
  });

  test("lets go of connections that it refused", async () => {
    listener = await startListener("node", echo, 2);
    const { port } = listener.address;
    for (const refused of ["CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n", "\u0001\r\n\r\n"]) {
      for (let i = 0; i < 3; i++) {
        const connection = await RawConnection.open(port);
        connection.send(refused);
        await connection.ended();
      }
      expect(await firstStatus(port)).toBe(200);
    }
  });

  test.each([
    ["bare LF after a size", "1\na\r\n0\r\n\r\n"],
    ["junk after a size", "1 junk\r\na\r\n0\r\n\r\n"],
    ["other bytes after the data", "1\r\naXX0\r\n\r\n"],
    ["a trailer section that is none", "1\r\na\r\n0\r\nX X\r\n\r\n"],
  ])("refuses lenient chunks: %s", async (_, body) => {
    listener = await startListener("node", echo);
    const head = request("POST", "/x", ["Transfer-Encoding: chunked"]);
    const { responses, closed } = await rawRequest(listener.address.port, [head, body], 500);
    expect(responses.map(({ status }) => status)).toEqual([400]);
    expect(closed).toBe(true);
  });

  test("takes chunk extensions and trailers", async () => {
    listener = await startListener("node", echo);
    const head = request("POST", "/x", ["Transfer-Encoding: chunked"]);
    const body = "2;a=b\r\nhi\r\n0\r\nX-Trailer: y\r\n\r\n";
    const { responses } = await rawRequest(listener.address.port, [head, body]);
    expect(responses[0]?.body.toString()).toBe("hi");
  });

  test("answers a client that has closed its side after sending", async () => {
    listener = await startListener("node", echo);
    const socket = connect({ host: "127.0.0.1", port: listener.address.port, allowHalfOpen: true });
    socket.end(request("GET", "/x"));
    let received = "";
    for await (const data of socket) {
      received += String(data);
    }
    expect(received).toMatch(/^HTTP\/1.1 200 OK/);
  });

  test("answers whole requests before it refuses the broken one behind them", async () => {
    const answers: (() => void)[] = [];
    listener = await startListener("node", (reply) => {
      reply.onAborted(() => undefined);
      answers.push(() => {
        writeAnswer(reply, { status: 200, headers: [], body: "first" });
      });
    });
    const connection = await RawConnection.open(listener.address.port);
    connection.send(`${request("GET", "/x")}\u0001broken\r\n\r\n`);
    await until(() => answers.length > 0);
    for (const answer of answers) {
      answer();
    }
    const { responses } = await connection.ended();
    expect(responses[0]?.body.toString()).toBe("first");
    expect(responses[1]?.status).toBe(400);
  });
});
