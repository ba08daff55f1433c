/** HAProxy in front of every listener, and Go's HTTP client: what a strict party makes of our answers. */
import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";

import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { atMost } from "../../../src/runtime/at-most.js";
import { finish, type FramingCase, type FramingTarget, getLine } from "../../helpers/http/framing.js";
import { chunkedBodies, codings, lengths } from "../../helpers/http/framing-bodies.js";
import { smuggling } from "../../helpers/http/framing-connections.js";
import { type FramingListeners, listeners, startFramingListeners } from "../../helpers/http/framing-listeners.js";
import { findHaproxy, type HaproxyBinary, startHaproxy } from "../../helpers/http/haproxy.js";
import { drivers } from "../../helpers/http/http-listener.js";
import { RawConnection } from "../../helpers/http/raw-http.js";

const run = promisify(execFile);
const haproxy = await findHaproxy();
if ("missing" in haproxy) {
  process.stdout.write(`SKIPPED: HAProxy is missing: ${haproxy.missing}\n`);
}
const go = await run("go", ["version"]).then(
  () => true,
  () => false,
);
if (!go) {
  process.stdout.write("SKIPPED: Go is not installed\n");
}

let running: FramingListeners;

beforeAll(async () => {
  running = await startFramingListeners();
  return () => running.stop();
});

/** HAProxy's own; that it has nothing to say for somebody else is all that it may come to. */
const ofTheProxy = ["502", "503", "nothing"];
const attempts = 5;
const patienceMs = 30_000;

/** Null, or what another client got that was not meant for it. */
async function smugglingProblem(port: number, target: FramingTarget, tried: FramingCase): Promise<string | null> {
  const first = await RawConnection.open(port);
  for (const piece of [tried.send(target)].flat()) {
    if (piece === finish) {
      first.finish();
    } else {
      first.send(piece as string | Buffer);
    }
  }
  const got: string[] = [];
  try {
    // Nothing but this request is for that path: every listener answers 404.
    for (let i = 0; i < attempts && got.at(-1) !== "404"; i++) {
      const other = await RawConnection.open(port);
      other.send(getLine("GET /of-the-other-client HTTP/1.1", "Connection: close"));
      const exchange = await atMost(other.ended(), patienceMs);
      if (exchange === null) {
        return `${tried.name}: the other client hangs`;
      }
      got.push(exchange.value.responses.map(({ status }) => status).join(" ") || "nothing");
    }
  } finally {
    first.close();
  }
  const foreign = got.slice(0, -1).some((answer) => !ofTheProxy.includes(answer));
  return foreign || got.at(-1) !== "404" ? `${tried.name}: the other client got ${got.join(", ")}` : null;
}

describe.skipIf("missing" in haproxy)("HAProxy with one connection that all clients share", () => {
  const binary = haproxy as HaproxyBinary;
  const shapes = [...smuggling, ...codings, ...chunkedBodies, ...lengths];

  describe.each(drivers)("%s", (driver) => {
    it.concurrent.each(listeners)(
      "%s: every other client gets its own answer, whatever one sends",
      async (kind) => {
        const { port, target } = running.of(driver)[kind];
        const proxy = await startHaproxy(binary, port);
        const problems: string[] = [];
        try {
          for (const tried of shapes) {
            const problem = await smugglingProblem(proxy.port, target, tried);
            if (problem !== null) {
              problems.push(problem);
            }
          }
        } finally {
          await proxy.stop();
        }
        expect(problems).toEqual([]);
      },
      600_000,
    );

    it("lets a DELETE with 204 through, and the connection goes on", async () => {
      const { port, target } = running.of(driver).web;
      const proxy = await startHaproxy(binary, port);
      try {
        const connection = await RawConnection.open(proxy.port);
        const name = `proxied-${driver}`;
        const body = JSON.stringify({ name });
        const fields = [...target.fields, `Content-Length: ${body.length}`];
        connection.send(getLine("POST /base/api/groups HTTP/1.1", ...fields) + body);
        await connection.settle();
        connection.send(getLine(`DELETE /base/api/groups/${name} HTTP/1.1`, ...target.fields));
        await connection.settle(2);
        connection.send(getLine("GET /health HTTP/1.1"));
        const { responses } = await connection.settle(3);
        connection.close();
        expect(responses.map(({ status }) => status)).toEqual([201, 204, 200]);
        expect(responses[1]?.headers["content-length"]).toBeUndefined();
      } finally {
        await proxy.stop();
      }
    });
  });
});

/** Creates and deletes a group three times over one connection. */
const program = `package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"os"
	"strings"
)

func main() {
	url, cookie, group := os.Args[1], os.Args[2], os.Args[3]
	connections := 0
	trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		if !info.Reused {
			connections++
		}
	}}
	do := func(method, path, body string) int {
		request, err := http.NewRequest(method, url+path, strings.NewReader(body))
		if err != nil {
			panic(err)
		}
		request.Header.Set("Cookie", cookie)
		request.Header.Set("Content-Type", "application/json")
		request = request.WithContext(httptrace.WithClientTrace(request.Context(), trace))
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			panic(err)
		}
		if _, err := io.Copy(io.Discard, response.Body); err != nil {
			panic(err)
		}
		response.Body.Close()
		return response.StatusCode
	}
	for i := 0; i < 3; i++ {
		fmt.Print(do("POST", "/base/api/groups", fmt.Sprintf("{\\"name\\":%q}", group)), " ")
		fmt.Print(do("DELETE", "/base/api/groups/"+group, ""), " ")
	}
	fmt.Print(connections)
}
`;

describe.skipIf(!go)("Go's net/http", () => {
  let directory: string;

  beforeAll(async () => {
    directory = await mkdtemp(path.join(tmpdir(), "go-client-"));
    await writeFile(path.join(directory, "main.go"), program);
    await run("go", ["build", "-o", "client", "main.go"], { cwd: directory });
  });

  afterAll(async () => {
    await rm(directory, { recursive: true, force: true });
  });

  it.each(drivers)("takes 204 from %s and keeps its connection", async (driver) => {
    const { port, target } = running.of(driver).web;
    const cookie = (target.fields[0] ?? "").replace("Cookie: ", "");
    const client = path.join(directory, "client");
    const { stdout } = await run(client, [`http://127.0.0.1:${port}`, cookie, `go-${driver}`]);
    expect(stdout).toBe("201 204 201 204 201 204 1");
  });
});
