/** Framing cases of connections and of smuggling (framing.ts says how to read them). */
import {
  chunkedPost,
  type Difference,
  finish,
  type FramingCase,
  get,
  getLine,
  plainPost,
  post,
  smuggled,
} from "./framing.js";
import { chunks, taken } from "./framing-bodies.js";
import { uwsDiffers } from "./framing-differences.js";

const refused = ["400."];

/** The web server: a key is shown once, so it is taken back where nobody may be there to read it. */
const leftWeb: Difference = {
  also: ["."],
  why: "to the web server a client that has closed its side is one that has left",
};

/** RFC 9112 section 9, RFC 9110 sections 7.6, 7.8 and 10.1.1. */
export const connections: readonly FramingCase[] = [
  { name: "Connection: close", send: () => get("Connection: close"), allow: ["200."] },
  { name: "Connection: Close", send: () => get("Connection: Close"), allow: ["200."] },
  {
    name: "Connection: close among others",
    send: () => get("Connection: a, close"),
    allow: ["200."],
    uws: uwsDiffers.close,
  },
  {
    name: "POST with Connection: close",
    send: (t) => plainPost(t, "Connection: close"),
    allow: ["ok."],
  },
  {
    name: "what follows Connection: close",
    send: () => get("Connection: close") + smuggled,
    allow: ["200."],
    uws: uwsDiffers.close,
  },
  { name: "Connection: keep-alive", send: () => get("Connection: keep-alive"), allow: ["200"] },
  {
    name: "Connection that names Content-Length",
    send: (t) => plainPost(t, "Connection: Content-Length"),
    allow: ["ok", ...refused],
  },
  {
    name: "Connection that names Host",
    send: () => get("Connection: Host"),
    allow: ["200", ...refused],
  },
  {
    name: "an upgrade to WebSocket",
    send: () =>
      get(
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Version: 13",
      ),
    allow: ["200", ...refused],
  },
  {
    name: "an upgrade to HTTP/2",
    send: () => get("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__"),
    allow: ["200"],
  },
  {
    name: "an upgrade with a body",
    send: (t) => plainPost(t, "Connection: Upgrade", "Upgrade: h2c"),
    allow: ["ok"],
  },
  {
    name: "what follows an upgrade",
    send: () => get("Connection: Upgrade", "Upgrade: h2c") + get(),
    allow: ["200 200"],
    node: { also: ["200"], why: "llhttp drops bytes in the same packet behind an upgrade" },
  },
  {
    name: "what follows CONNECT",
    send: () => `CONNECT localhost:80 HTTP/1.1\r\nHost: localhost:80\r\n\r\n${smuggled}`,
    allow: ["400.", "404 200", "405 200", "405.", "501."],
    uws: uwsDiffers.requestLine,
  },
  {
    name: "an expectation that nobody knows",
    send: (t) => plainPost(t, "Expect: tea"),
    allow: ["ok", "417", "417."],
  },
  {
    name: "Expect: 100-continue with the body at once",
    send: (t) => plainPost(t, "Expect: 100-continue"),
    allow: ["ok", "ok.", "100 ok", "100 ok."],
  },
  {
    name: "Expect: 100-continue without a body",
    send: () => get("Expect: 100-continue"),
    allow: ["200", "200."],
    uws: uwsDiffers.expect,
  },
  {
    name: "Expect: 100-continue in HTTP/1.0",
    send: (t) => post(t, ["Content-Length: 17", "Expect: 100-continue"], t.body, `POST ${t.path} HTTP/1.0`),
    allow: ["ok."],
    uws: uwsDiffers.expect,
  },
  {
    name: "Expect: 100-continue with chunks",
    send: (t) => post(t, ["Transfer-Encoding: chunked", "Expect: 100-continue"], chunks(t)),
    allow: [...taken, "100 ok", "100 ok."],
    uws: uwsDiffers.expect,
  },

  { name: "two GETs at once", send: () => get() + get(), allow: ["200 200"] },
  {
    name: "ten GETs at once",
    send: () => get().repeat(10),
    allow: [Array(10).fill("200").join(" ")],
  },
  {
    name: "two POSTs at once",
    send: (t) => plainPost(t) + plainPost(t),
    allow: ["ok ok"],
    uws: uwsDiffers.pipelining,
  },
  {
    name: "a GET, a POST and a GET at once",
    send: (t) => get() + plainPost(t) + get(),
    allow: ["200 ok 200"],
    uws: uwsDiffers.pipelining,
  },
  {
    name: "a chunked POST and a GET at once",
    send: (t) => chunkedPost(t, chunks(t)) + get(),
    allow: ["ok 200", "ok."],
    uws: uwsDiffers.pipelining,
  },
  {
    name: "an empty line between requests",
    send: () => `${get()}\r\n${get()}`,
    allow: ["200 200"],
    uws: uwsDiffers.pipelining,
  },
  {
    name: "a POST, an empty line and a GET",
    send: (t) => `${plainPost(t)}\r\n${get()}`,
    allow: ["ok 200"],
    uws: uwsDiffers.pipelining,
  },
  {
    name: "a request cut behind another one",
    send: () => [get() + get().slice(0, 20), get().slice(20)],
    allow: ["200 200"],
    uws: uwsDiffers.splitLine,
  },
  {
    name: "a GET and something that is no request",
    send: () => `${get()}\u0001\u0002\r\n\r\n`,
    allow: ["200 400."],
    uws: uwsDiffers.pipelining,
  },
  {
    name: "a GET and a request without Host",
    send: () => `${get()}GET /health HTTP/1.1\r\n\r\n`,
    allow: ["200 400."],
    uws: uwsDiffers.brokenHead,
  },

  {
    name: "a GET by a client that then closes its side",
    send: () => [get(), finish],
    allow: ["200."],
    uws: uwsDiffers.pipelining,
    node: leftWeb,
  },
  {
    name: "a POST by a client that then closes its side",
    send: (t) => [plainPost(t), finish],
    allow: ["ok."],
    uws: uwsDiffers.pipelining,
    node: leftWeb,
  },
  {
    name: "two GETs by a client that then closes its side",
    send: () => [get() + get(), finish],
    allow: ["200 200."],
    uws: uwsDiffers.pipelining,
    node: leftWeb,
  },

  { name: "HEAD", send: () => getLine("HEAD /health HTTP/1.1"), heads: 1, allow: ["200"] },
  {
    name: "HEAD, HEAD and GET at once",
    send: () => getLine("HEAD /health HTTP/1.1").repeat(2) + get(),
    heads: 2,
    allow: ["200 200 200"],
  },
  {
    name: "HEAD of no path",
    send: () => getLine("HEAD /nothing HTTP/1.1") + get(),
    heads: 1,
    allow: ["404 200"],
  },
  {
    name: "HEAD of what takes POST",
    send: (t) => getLine(`HEAD ${t.path} HTTP/1.1`, ...t.fields) + get(),
    heads: 1,
    allow: ["405 200", "200 200"],
    uws: uwsDiffers.pipelining,
  },
  {
    name: "HEAD with a body",
    send: (t) => getLine("HEAD /health HTTP/1.1", "Content-Length: 17") + t.body + get(),
    heads: 1,
    allow: ["200 200"],
  },
  {
    name: "HEAD in HTTP/1.0",
    send: () => getLine("HEAD /health HTTP/1.0"),
    heads: 1,
    allow: ["200."],
    uws: uwsDiffers.requestLine,
  },
  {
    name: "HEAD with Connection: close",
    send: () => getLine("HEAD /health HTTP/1.1", "Connection: close"),
    heads: 1,
    allow: ["200."],
  },
];

function hidden(name: string, send: FramingCase["send"], allow: readonly string[]): FramingCase {
  return { name, send, allow, inBody: true, uws: cut };
}

/** Whichever of the classes it is: the hidden request has no answer, and so has at most the first one. */
const cut: Difference = {
  also: ["ok.", ".", "?", "400.", "505."],
  why: `${uwsDiffers.brokenHead.why}; ${uwsDiffers.trailers.why}`,
};

/** Shapes by which one request is hidden in another: never may the hidden one be answered. */
export const smuggling: readonly FramingCase[] = [
  hidden(
    "CL.TE",
    (t) => post(t, [`Content-Length: ${5 + smuggled.length}`, "Transfer-Encoding: chunked"], `0\r\n\r\n${smuggled}`),
    refused,
  ),
  hidden(
    "TE.CL",
    (t) =>
      post(
        t,
        ["Transfer-Encoding: chunked", "Content-Length: 4"],
        `${smuggled.length.toString(16)}\r\n${smuggled}\r\n0\r\n\r\n`,
      ),
    refused,
  ),
  ...[
    "Transfer-Encoding: xchunked",
    "Transfer-Encoding : chunked",
    "Transfer-Encoding:\u000bchunked",
    " Transfer-Encoding: chunked",
    "X: y\rTransfer-Encoding: chunked",
    "Transfer-Encoding: identity, chunked",
    "Transfer-Encoding: chunked\r\nTransfer-Encoding: x",
    "Transfer-Encoding: cow\r\ntransfer-encoding: chunked",
    "Transfer-Encoding\t: chunked",
    "Transfer-Encoding:\r\n\tchunked, x",
    'Transfer-Encoding: "chunked"',
    "Transfer-Encoding: chunked\0",
  ].map((line) =>
    hidden(
      `CL.TE behind ${JSON.stringify(line)}`,
      (t) => post(t, [`Content-Length: ${5 + smuggled.length}`, line], `0\r\n\r\n${smuggled}`),
      [...refused, "501."],
    ),
  ),
  hidden(
    "TE hidden behind a bare LF",
    (t) =>
      post(t, [`Content-Length: ${5 + smuggled.length}`, "X: y\nTransfer-Encoding: chunked"], `0\r\n\r\n${smuggled}`),
    refused,
  ),
  hidden("CL.0", (t) => post(t, [`Content-Length: ${smuggled.length}`], smuggled), ["ok", "ok.", "400", "400."]),
  hidden("CL.0 in a GET", () => get(`Content-Length: ${smuggled.length}`) + smuggled, ["200", "200.", ...refused]),
  hidden("0.CL", (t) => post(t, ["Content-Length: 0", `Content-Length: ${smuggled.length}`], smuggled), refused),
  hidden("CL.CL", (t) => post(t, [`Content-Length: ${smuggled.length}`, "Content-Length: 0"], smuggled), refused),
  hidden(
    "CL hidden behind a bare CR",
    (t) => post(t, ["X: y\rContent-Length: 0", `Content-Length: ${smuggled.length}`], smuggled),
    refused,
  ),
  hidden(
    "Content-Length that is folded away",
    (t) => post(t, ["X: y\r\n Content-Length: 0", `Content-Length: ${smuggled.length}`], smuggled),
    ["ok", "ok.", "400", "400."],
  ),
  hidden(
    "trailers that read like a request",
    (t) => chunkedPost(t, `11\r\n${t.body}\r\n0\r\nX: /health HTTP/1.1\r\nHost: a\r\nzz: c\r\n\r\n`),
    taken,
  ),
  hidden(
    "trailers that read like a request whose head is never answered",
    (t) => chunkedPost(t, `11\r\n${t.body}\r\n0\r\nXabc: /nope HTTP/1.1\r\nHost: a\r\nz.z: c\r\n\r\n`),
    taken,
  ),
  hidden(
    "trailers that begin like a request line",
    (t) => chunkedPost(t, `11\r\n${t.body}\r\n0\r\n${smuggled}`),
    refused,
  ),
  hidden(
    "trailers whose first two bytes are skipped",
    (t) => chunkedPost(t, `11\r\n${t.body}\r\n0\r\nXX${smuggled}`),
    refused,
  ),
  hidden(
    "a GET with trailers that read like a request",
    () => `${get("Transfer-Encoding: chunked")}0\r\nXabc: /health HTTP/1.1\r\nHost: a\r\nzz: c\r\n\r\n`,
    ["200", "200.", ...refused],
  ),
  hidden(
    "a request in a chunk extension",
    (t) => chunkedPost(t, `11;\n${t.body}\r\n${smuggled.length.toString(16)}\r\n0\r\n\r\n${smuggled}`),
    refused,
  ),
  hidden("a request behind a size with a bare LF", (t) => chunkedPost(t, `11\n${t.body}\r\n0\n\n${smuggled}`), refused),
  hidden(
    "a request behind data that is longer than its size",
    (t) => chunkedPost(t, `2\r\n${t.body}\r\n0\r\n\r\n${smuggled}`),
    refused,
  ),
  hidden("a request behind a size beyond 64 bits", (t) => chunkedPost(t, `10000000000000000\r\n\r\n${smuggled}`), [
    ...refused,
    "413.",
  ]),
  hidden(
    "Transfer-Encoding in HTTP/1.0 with a request behind it",
    (t) =>
      post(
        t,
        ["Transfer-Encoding: chunked", "Connection: keep-alive"],
        `0\r\n\r\n${smuggled}`,
        `POST ${t.path} HTTP/1.0`,
      ),
    ["ok.", "505.", "400."],
  ),
  hidden(
    "a request in a field value behind a bare LF",
    () => get("X: y\n\nGET /health HTTP/1.1\nHost: a").replace(/\r\n$/, "\r\n\r\n"),
    ["200 200", "200 400.", "200.", ...refused],
  ),
];
