/**
 * Not a test of the suite: a test file for a run of its own, in which minted keys get out by the ways
 * that the variable PLANT names (cleartext-watch.e2e.test.ts).
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

import { expect, it } from "vitest";

import { generateKeyString } from "../../../src/auth/key-string.js";
import { createMetrics } from "../../../src/runtime/metrics.js";
import { createTappedLogger, recordMinted, recordMintedHashes, sha256 } from "./cleartext-tap.js";

type Way = (key: string) => Promise<void> | void;

const ways: Readonly<Record<string, Way>> = {
  nothing(key) {
    recordMinted(key);
    createTappedLogger().info("a key of nobody's: %s", generateKeyString());
  },
  log(key) {
    recordMinted(key);
    createTappedLogger().trace({ headers: { authorization: `Bearer ${key}` } }, "received");
  },
  "hash-only"(key) {
    recordMintedHashes([sha256(key)]);
    createTappedLogger().info(`[${key}]`);
  },
  beginning(key) {
    recordMinted(key);
    createTappedLogger().info(`${key.slice(0, 20)}...`);
  },
  "random part"(key) {
    recordMinted(key);
    createTappedLogger().info(`key=abc${key.slice(4, 47)}def`);
  },
  async mint(key) {
    await answer(201, JSON.stringify({ key_id: "x", key }));
  },
  async response(key) {
    recordMinted(key);
    await answer(200, JSON.stringify([{ key_id: "x", key }]));
  },
  async "twice in a mint"(key) {
    await answer(201, JSON.stringify({ key_id: "x", key, name: key }));
  },
  metrics(key) {
    recordMinted(key);
    createMetrics().counter("requests_total", "Requests", ["by"]).inc({ by: key });
  },
  async output(key) {
    recordMinted(key);
    const [half, rest] = [key.slice(0, 9), key.slice(9)];
    const program = `process.stderr.write("${half}");setTimeout(() => process.stderr.write("${rest}\\n"), 50)`;
    await once(spawn(process.execPath, ["-e", program]), "close");
  },
};

async function answer(status: number, body: string): Promise<void> {
  const server = createServer((_request, response) => {
    response.writeHead(status, { "content-type": "application/json" }).end(body);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const path = status === 201 ? "/api/ingestion-api-keys" : "/api/audit";
  await (await fetch(`http://127.0.0.1:${String(port)}${path}`, { method: "POST" })).json();
  server.close();
  server.closeAllConnections();
}

it.each((process.env["PLANT"] ?? "").split(","))("%s", async (name) => {
  const way = ways[name];
  expect(way).toBeDefined();
  await way?.(generateKeyString());
});
