/** Connections to data sources whose addresses change. */
import { createServer, type ServerHttp2Session, type ServerHttp2Stream } from "node:http2";
import type { AddressInfo } from "node:net";
import { once } from "node:events";

import { expect, it, onTestFinished } from "vitest";

import { DataSources, type OpenSource } from "../../../src/routes/web/query/data-sources.js";

interface Source {
  readonly uri: string;
  /** Connections that are open. */
  readonly sessions: ReadonlySet<ServerHttp2Session>;
  /** Calls that are not answered yet. */
  readonly calls: ServerHttp2Stream[];
  stop(): Promise<void>;
}

/** A server that takes calls and leaves it to the test to answer them. */
async function startSource(): Promise<Source> {
  const sessions = new Set<ServerHttp2Session>();
  const calls: ServerHttp2Stream[] = [];
  const server = createServer({ settings: { maxConcurrentStreams: 100 } });
  server.on("session", (session) => {
    sessions.add(session);
    session.on("close", () => sessions.delete(session));
  });
  server.on("stream", (stream) => calls.push(stream));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const stop = async (): Promise<void> => {
    for (const session of sessions) {
      session.destroy();
    }
    server.close();
    await once(server, "close");
  };
  onTestFinished(stop);
  return { uri: `grpc://127.0.0.1:${(server.address() as AddressInfo).port}`, sessions, calls, stop };
}

/** Answers the oldest call: no results. */
function answer({ calls }: Source): void {
  const call = calls.shift();
  call?.respond({ ":status": 200, "content-type": "application/grpc", "grpc-status": "0" }, { endStream: true });
}

const call = ({ calls }: OpenSource) =>
  calls.action("anything", new Uint8Array(0), { signal: new AbortController().signal, headers: {} });

/** The data source `other` at an address that changes, beside a built-in one. */
function sourcesOver(builtIn: Source, first: Source) {
  const list = { uri: first.uri };
  const sources = new DataSources({
    builtIn: () => builtIn.uri,
    admin: { sources: () => Promise.resolve([{ name: "other", uri: list.uri, is_default: false }]) },
    monotonicMs: () => 0,
  });
  onTestFinished(() => {
    sources.stop();
  });
  const moveTo = ({ uri }: Source): void => {
    list.uri = uri;
    sources.forget();
  };
  return { sources, moveTo };
}

it("a data source that moved is left when its calls have ended, the built-in one and those that stay are kept", async () => {
  const [builtIn, before, after] = await Promise.all([startSource(), startSource(), startSource()]);
  const { sources, moveTo } = sourcesOver(builtIn, before);
  const inBuiltIn = sources.openBuiltIn();
  const ofBuiltIn = call(inBuiltIn);
  const old = await sources.open("other");
  const ofOld = call(old);
  await expect.poll(() => [builtIn.calls.length, before.calls.length]).toEqual([1, 1]);
  answer(builtIn);
  expect(await ofBuiltIn).toEqual([]);
  inBuiltIn.release();

  moveTo(after);
  const moved = await sources.open("other");
  const ofMoved = call(moved);
  await expect.poll(() => after.calls.length).toBe(1);
  answer(after);
  expect(await ofMoved).toEqual([]);
  moved.release();
  // Who has the old one goes on with it.
  answer(before);
  expect(await ofOld).toEqual([]);
  const again = call(old);
  await expect.poll(() => before.calls.length).toBe(1);
  answer(before);
  expect(await again).toEqual([]);
  expect(before.sessions.size).toBe(1);
  old.release();
  await expect.poll(() => before.sessions.size).toBe(0);
  expect([builtIn.sessions.size, after.sessions.size]).toEqual([1, 1]);
});

it("a data source that moves over and over leaves one connection", async () => {
  const builtIn = await startSource();
  const places = await Promise.all(Array.from({ length: 20 }, startSource));
  const { sources, moveTo } = sourcesOver(builtIn, builtIn);
  for (const place of places) {
    moveTo(place);
    const source = await sources.open("other");
    const called = call(source);
    await expect.poll(() => place.calls.length).toBe(1);
    answer(place);
    await called;
    source.release();
  }
  const open = (): number => places.filter(({ sessions }) => sessions.size > 0).length;
  await expect.poll(open).toBe(1);
});

it("calls beyond those that a server takes of a connection go over others, which are closed when nobody uses them", async () => {
  const builtIn = await startSource();
  const { sources } = sourcesOver(builtIn, builtIn);
  const open = Array.from({ length: 120 }, () => sources.openBuiltIn());
  const called = open.map(call);
  await expect.poll(() => builtIn.calls.length, { timeout: 10_000 }).toBe(120);
  expect(builtIn.sessions.size).toBe(3);
  while (builtIn.calls.length > 0) {
    answer(builtIn);
  }
  await Promise.all(called);
  for (const { release } of open) {
    release();
  }
  await expect.poll(() => builtIn.sessions.size).toBe(1);
  const again = sources.openBuiltIn();
  const last = call(again);
  await expect.poll(() => builtIn.calls.length).toBe(1);
  answer(builtIn);
  expect(await last).toEqual([]);
  again.release();
  expect(builtIn.sessions.size).toBe(1);
});
