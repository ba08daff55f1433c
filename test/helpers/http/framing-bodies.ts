/** Framing cases of bodies (framing.ts says how to read them). */
import { chunkedPost, finish, type FramingCase, type FramingTarget, get, getLine, plainPost, post } from "./framing.js";
import { uwsDiffers } from "./framing-differences.js";

const refused = ["400."];
/** RFC 9112 section 9.3: a server may end a connection after any response. */
export const taken = ["ok", "ok."];

/** A POST of 17 bytes whose only framing are these fields. */
function framed(name: string, lines: readonly string[], allow: readonly string[]): FramingCase {
  return { name, send: (t) => post(t, lines, t.body), allow, uws: uwsDiffers.brokenHead };
}

/** RFC 9112 section 6.2, RFC 9110 section 8.6. */
export const lengths: readonly FramingCase[] = [
  ...["17", " 17 ", "\t17", "00017"].map((value) =>
    framed(`Content-Length ${JSON.stringify(value)}`, [`Content-Length:${value}`], ["ok"]),
  ),
  ...[
    "",
    "+17",
    "-17",
    "-1",
    "17.0",
    "17e0",
    "0x11",
    "0b10001",
    "17,17",
    "17, 17",
    "17, 18",
    "17;",
    "1_7",
    "1 7",
    "a",
    "17a",
    '"17"',
    "\u0661\u0667",
    "\u000b17",
    "17\u0000",
    "18446744073709551633",
    "99999999999999999999999",
    `${"0".repeat(400)}17`,
  ].map((value) =>
    framed(
      `Content-Length ${JSON.stringify(value).slice(0, 40)}`,
      [`Content-Length: ${value}`],
      [...refused, ...(value.startsWith("9") || value.startsWith("18") ? ["413."] : [])],
    ),
  ),
  framed("Content-Length twice", ["Content-Length: 17", "Content-Length: 17"], refused),
  framed("Content-Length twice, 0 first", ["Content-Length: 0", "Content-Length: 17"], refused),
  framed("Content-Length twice, 0 last", ["Content-Length: 17", "a: b", "content-length: 0"], refused),
  framed("Content-Length three times", ["Content-Length: 17", "Content-Length: 17", "Content-Length: 17"], refused),
  framed("Content-Length, a space, the colon", ["Content-Length : 17"], refused),
  framed("Content-Length folded", ["Content-Length:\r\n 17"], ["ok", ...refused]),
  framed("Content-Length continued", ["Content-Length: 17\r\n 0"], refused),
  {
    name: "GET with a body",
    send: (t) => getLine("GET /health HTTP/1.1", "Content-Length: 17") + t.body + get(),
    allow: ["200 200"],
  },
  { name: "GET with Content-Length 0", send: () => get("Content-Length: 0"), allow: ["200"] },
  {
    name: "more bytes than Content-Length",
    send: (t) => `${plainPost(t)}\u0001\u0002\r\n\r\n`,
    allow: ["ok 400.", "ok."],
    uws: uwsDiffers.pipelining,
  },
  {
    name: "a body that never comes, given up",
    send: (t) => [post(t, ["Content-Length: 17"], "{"), finish],
    allow: [".", "400."],
    inBody: true,
  },
];

/** RFC 9112 section 6.1. */
export const codings: readonly FramingCase[] = [
  ...["chunked", "Chunked", " chunked "].map((value): FramingCase => ({
    name: `Transfer-Encoding ${JSON.stringify(value)}`,
    send: (t) => post(t, [`Transfer-Encoding:${value}`], chunks(t)),
    allow: taken,
    uws: uwsDiffers.noBody,
  })),
  ...[
    "",
    "xchunked",
    "chunkedx",
    "identity",
    "gzip",
    "gzip, chunked",
    "chunked, gzip",
    "chunked, chunked",
    "identity, chunked",
    "chunked, identity",
    "chunked,",
    ",chunked",
    "x chunked",
    "chunked x",
    "chunked;a=b",
    '"chunked"',
    "chun\u212aed",
    "\u000bchunked",
    "chunked\u000b",
    "\u0000chunked",
  ].map((value): FramingCase => ({
    name: `Transfer-Encoding ${JSON.stringify(value)}`,
    send: (t) => post(t, [`Transfer-Encoding: ${value}`], chunks(t)),
    allow: [...refused, "501."],
    uws: uwsDiffers.brokenHead,
  })),
  ...[
    ["chunked", "chunked"],
    ["chunked", "identity"],
    ["identity", "chunked"],
    ["gzip", "chunked"],
    ["", "chunked"],
  ].map((values): FramingCase => ({
    name: `Transfer-Encoding twice: ${values.join("; ")}`,
    send: (t) =>
      post(
        t,
        values.map((value) => `Transfer-Encoding: ${value}`),
        chunks(t),
      ),
    allow: [...refused, "501."],
    uws: uwsDiffers.brokenHead,
  })),
  {
    name: "Transfer-Encoding behind a no-break space",
    send: (t) => post(t, ["Transfer-Encoding: \u00a0chunked"], chunks(t)),
    allow: refused,
    uws: uwsDiffers.lenientHead,
  },
  {
    name: "Transfer-Encoding with a tab behind it",
    send: (t) => post(t, ["Transfer-Encoding: chunked\t"], chunks(t)),
    allow: taken,
    uws: uwsDiffers.noBody,
    node: { also: refused, why: "llhttp takes no tab there; refusing is safe" },
  },
  {
    name: "Transfer-Encoding, a space, the colon",
    send: (t) => post(t, ["Transfer-Encoding : chunked"], chunks(t)),
    allow: refused,
    uws: uwsDiffers.brokenHead,
  },
  {
    name: "Transfer-Encoding folded",
    send: (t) => post(t, ["Transfer-Encoding:\r\n chunked"], chunks(t)),
    allow: [...taken, ...refused],
    uws: uwsDiffers.brokenHead,
  },
  {
    name: "Transfer-Encoding in HTTP/1.0",
    send: (t) => post(t, ["Transfer-Encoding: chunked"], chunks(t), `POST ${t.path} HTTP/1.0`),
    allow: ["ok.", ...refused, "505."],
    uws: uwsDiffers.brokenHead,
  },
  {
    name: "Content-Length, then Transfer-Encoding",
    send: (t) => post(t, ["Content-Length: 17", "Transfer-Encoding: chunked"], chunks(t)),
    allow: refused,
  },
  {
    name: "Transfer-Encoding, then Content-Length",
    send: (t) => post(t, ["Transfer-Encoding: chunked", "Content-Length: 17"], chunks(t)),
    allow: refused,
  },
  {
    name: "Transfer-Encoding and Content-Length 0",
    send: (t) => post(t, ["Transfer-Encoding: chunked", "Content-Length: 0"], chunks(t)),
    allow: refused,
  },
  { name: "TE, which is something else", send: (t) => plainPost(t, "TE: chunked"), allow: ["ok"] },
];

/** The plain body as one chunk. */
export function chunks(t: FramingTarget): string {
  return `11\r\n${t.body}\r\n0\r\n\r\n`;
}

function chunk(name: string, body: (t: FramingTarget) => string, allow = refused): FramingCase {
  const uws = /extension|trailer/.test(name) ? uwsDiffers.trailers : uwsDiffers.lenientChunks;
  return { name, send: (t) => chunkedPost(t, body(t)), allow, inBody: true, uws };
}

/** RFC 9112 section 7.1. */
export const chunkedBodies: readonly FramingCase[] = [
  chunk("two chunks", (t) => `3\r\n${t.body.slice(0, 3)}\r\ne\r\n${t.body.slice(3)}\r\n0\r\n\r\n`, taken),
  {
    name: "chunks byte by byte",
    send: (t) => [post(t, ["Transfer-Encoding: chunked"], ""), ...chunks(t).split("")],
    allow: taken,
    uws: uwsDiffers.noBody,
  },
  chunk("a size with leading zeros", (t) => `0011\r\n${t.body}\r\n000\r\n\r\n`, taken),
  chunk(
    "a size in capitals and small letters",
    (t) =>
      `${t.body.length.toString(16)}\r\n${t.body}\r\nA\r\n${" ".repeat(10)}\r\nb\r\n${" ".repeat(11)}\r\n0\r\n\r\n`,
    taken,
  ),
  ...[";a", ";a=b", ';a="b c"', ";a=b;c=d", ";", " ;a=b", '; a = "b"'].map((extension) =>
    chunk(
      `the chunk extension ${JSON.stringify(extension)}`,
      (t) => `11${extension}\r\n${t.body}\r\n0\r\n\r\n`,
      [";a", ";a=b", ";a=b;c=d"].includes(extension) ? taken : [...taken, ...refused],
    ),
  ),
  chunk("an extension of the last chunk", (t) => `11\r\n${t.body}\r\n0;a=b\r\n\r\n`, taken),
  chunk("an extension of 70,000 characters", (t) => `11;${"a".repeat(70_000)}\r\n${t.body}\r\n0\r\n\r\n`, [
    ...refused,
    "413.",
    ".",
  ]),
  ...[
    "11 ",
    " 11",
    "\t11",
    "+11",
    "-11",
    "0x11",
    "11h",
    "g",
    "",
    "11 junk",
    "11,11",
    "1_1",
    "11\u000b",
    "11\u0000",
    "10000000000000011",
    "ffffffffffffffff11",
    "80000000000000000",
  ].map((size) =>
    chunk(`the chunk size ${JSON.stringify(size)}`, (t) => `${size}\r\n${t.body}\r\n0\r\n\r\n`, [
      ...refused,
      "413.",
      ...(size === "11 " ? taken : []),
    ]),
  ),
  chunk("a bare LF behind a size", (t) => `11\n${t.body}\r\n0\r\n\r\n`),
  chunk("a bare CR behind a size", (t) => `11\r${t.body}\r\n0\r\n\r\n`),
  chunk("two CRs behind a size", (t) => `11\r\r\n${t.body}\r\n0\r\n\r\n`),
  chunk("a bare LF in an extension", (t) => `11;a\nb\r\n${t.body}\r\n0\r\n\r\n`),
  chunk("a bare CR in an extension", (t) => `11;a\rb\r\n${t.body}\r\n0\r\n\r\n`),
  chunk("NUL in an extension", (t) => `11;a\0b\r\n${t.body}\r\n0\r\n\r\n`),
  chunk("no CRLF behind the data", (t) => `11\r\n${t.body}0\r\n\r\n`),
  chunk("a bare LF behind the data", (t) => `11\r\n${t.body}\n0\r\n\r\n`),
  chunk("other bytes than CRLF behind the data", (t) => `11\r\n${t.body}XX0\r\n\r\n`),
  chunk("more data than the size says", (t) => `10\r\n${t.body}\r\n0\r\n\r\n`),
  chunk("less data than the size says", (t) => `12\r\n${t.body}\r\n0\r\n\r\n`),
  {
    name: "other bytes than CRLF at the end, given up",
    send: (t) => [chunkedPost(t, `11\r\n${t.body}\r\n0\r\nXX`), finish],
    allow: [".", "400."],
    inBody: true,
    uws: uwsDiffers.lenientChunks,
  },
  chunk("a bare LF at the end", (t) => `11\r\n${t.body}\r\n0\r\n\n`),
  chunk("bare LFs everywhere", (t) => chunks(t).replaceAll("\r\n", "\n")),
  chunk("a trailer", (t) => `11\r\n${t.body}\r\n0\r\na: b\r\n\r\n`, taken),
  chunk("two trailers", (t) => `11\r\n${t.body}\r\n0\r\na: b\r\nc: d\r\n\r\n`, taken),
  chunk("a trailer that names a length", (t) => `11\r\n${t.body}\r\n0\r\nContent-Length: 100\r\n\r\n`, [
    ...taken,
    ...refused,
  ]),
  chunk("a trailer that names a coding", (t) => `11\r\n${t.body}\r\n0\r\nTransfer-Encoding: chunked\r\n\r\n`, [
    ...taken,
    ...refused,
  ]),
  chunk("a trailer that names a host", (t) => `11\r\n${t.body}\r\n0\r\nHost: other\r\n\r\n`, [...taken, ...refused]),
  chunk("a trailer without a colon", (t) => `11\r\n${t.body}\r\n0\r\nabc\r\n\r\n`),
  chunk("a trailer with a space before the colon", (t) => `11\r\n${t.body}\r\n0\r\na : b\r\n\r\n`),
  chunk("a trailer with NUL", (t) => `11\r\n${t.body}\r\n0\r\na: b\0\r\n\r\n`),
  chunk("trailers of 70,000 characters", (t) => `11\r\n${t.body}\r\n0\r\na: ${"b".repeat(70_000)}\r\n\r\n`, [
    ...refused,
    "431.",
    ".",
  ]),
  {
    name: "no last chunk, given up",
    send: (t) => [chunkedPost(t, `11\r\n${t.body}\r\n`), finish],
    allow: [".", "400."],
    inBody: true,
    uws: uwsDiffers.lenientChunks,
  },
  {
    name: "no end of the trailers, given up",
    send: (t) => [chunkedPost(t, `11\r\n${t.body}\r\n0\r\n`), finish],
    allow: [".", "400."],
    inBody: true,
    uws: uwsDiffers.lenientChunks,
  },
];
