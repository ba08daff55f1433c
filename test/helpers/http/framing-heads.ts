/** Framing cases of request lines, fields and `Host` (framing.ts says how to read them). */
import { finish, type Difference, type FramingCase, get, getLine, plainPost, post } from "./framing.js";
import { uwsDiffers } from "./framing-differences.js";

const refused = ["400."];
const unknownMethod = ["400.", "405", "405.", "501", "501."];
const takenOrRefused = ["200", "400."];
const notFoundOrRefused = ["404", "400.", "505."];

/** RFC 9112 sections 2 and 3. */
export const requestLines: readonly FramingCase[] = [
  { name: "a plain GET", send: () => get(), allow: ["200"] },
  { name: "a plain POST", send: (t) => plainPost(t), allow: ["ok"] },
  { name: "a query", send: () => getLine("GET /health?a=b HTTP/1.1"), allow: ["200"] },
  {
    name: "a method in lower case",
    send: () => getLine("get /health HTTP/1.1"),
    allow: unknownMethod,
  },
  { name: "an unknown method", send: () => getLine("FOO /health HTTP/1.1"), allow: unknownMethod },
  { name: "M-SEARCH", send: () => getLine("M-SEARCH /health HTTP/1.1"), allow: unknownMethod },
  { name: "TRACE", send: () => getLine("TRACE /health HTTP/1.1"), allow: unknownMethod },
  { name: "PUT without a body", send: () => getLine("PUT /health HTTP/1.1"), allow: unknownMethod },
  {
    name: "a method that is no token",
    send: () => getLine("G@T /health HTTP/1.1"),
    allow: refused,
    uws: uwsDiffers.lenientHead,
  },
  {
    name: "a method of 9000 characters",
    send: () => getLine(`${"A".repeat(9000)} /health HTTP/1.1`),
    allow: [...unknownMethod, "431."],
  },
  {
    name: "no method",
    send: () => getLine("/health HTTP/1.1"),
    allow: refused,
    uws: uwsDiffers.requestLine,
  },
  {
    name: "a space for a method",
    send: () => getLine(" /health HTTP/1.1"),
    allow: refused,
    uws: uwsDiffers.lenientHead,
  },
  {
    name: "the preface of HTTP/2",
    send: () => "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    allow: ["400.", "505.", "."],
  },
  {
    name: "TLS",
    send: () => Buffer.from("16030100a5010000a10303", "hex"),
    allow: ["400.", "."],
    uws: uwsDiffers.requestLine,
  },
  {
    name: "CONNECT",
    send: () => "CONNECT localhost:80 HTTP/1.1\r\nHost: localhost:80\r\n\r\n",
    allow: [...unknownMethod, "404"],
    uws: uwsDiffers.requestLine,
  },
  {
    name: "CONNECT of a path",
    send: () => getLine("CONNECT /health HTTP/1.1"),
    allow: [...unknownMethod, "404"],
    uws: uwsDiffers.requestLine,
  },
  {
    name: "OPTIONS *",
    send: () => getLine("OPTIONS * HTTP/1.1"),
    allow: ["200", "204", "404", "405", "400."],
    uws: uwsDiffers.requestLine,
  },

  {
    name: "the absolute form",
    send: () => getLine("GET http://localhost/health HTTP/1.1"),
    allow: ["200"],
    uws: uwsDiffers.requestLine,
  },
  {
    name: "the absolute form with a port and a query",
    send: () => getLine("GET http://localhost:80/health?a HTTP/1.1"),
    allow: ["200"],
    uws: uwsDiffers.requestLine,
  },
  {
    name: "the absolute form of another host",
    send: () => getLine("GET http://other/health HTTP/1.1"),
    allow: takenOrRefused,
    uws: uwsDiffers.requestLine,
  },
  {
    name: "the absolute form without a path",
    send: () => getLine("GET http://localhost HTTP/1.1"),
    allow: ["404"],
    uws: uwsDiffers.requestLine,
  },
  {
    name: "the absolute form of another scheme",
    send: () => getLine("GET ftp://localhost/health HTTP/1.1"),
    allow: ["404", "400.", "421"],
    uws: uwsDiffers.requestLine,
  },
  {
    name: "the authority form",
    send: () => getLine("GET localhost:80 HTTP/1.1"),
    allow: notFoundOrRefused,
  },
  { name: "the asterisk form", send: () => getLine("GET * HTTP/1.1"), allow: notFoundOrRefused },
  {
    name: "a target without a slash",
    send: () => getLine("GET health HTTP/1.1"),
    allow: notFoundOrRefused,
  },
  {
    name: "no target",
    send: () => getLine("GET HTTP/1.1"),
    allow: refused,
    uws: uwsDiffers.requestLine,
  },
  {
    name: "two spaces for a target",
    send: () => getLine("GET  HTTP/1.1"),
    allow: refused,
    uws: uwsDiffers.requestLine,
  },
  {
    name: "a space in the target",
    send: () => getLine("GET /hea lth HTTP/1.1"),
    allow: refused,
    uws: uwsDiffers.requestLine,
  },
  {
    name: "a tab in the target",
    send: () => getLine("GET /hea\tlth HTTP/1.1"),
    allow: refused,
    uws: uwsDiffers.requestLine,
  },
  {
    name: "a fragment in the target",
    send: () => getLine("GET /health#a HTTP/1.1"),
    allow: ["200", "404", "400."],
  },
  {
    name: "a control character in the target",
    send: () => getLine("GET /hea\u0001lth HTTP/1.1"),
    allow: refused,
    uws: uwsDiffers.requestLine,
  },
  {
    name: "DEL in the target",
    send: () => getLine("GET /hea\u007flth HTTP/1.1"),
    allow: refused,
    uws: uwsDiffers.lenientHead,
  },
  {
    name: "NUL in the target",
    send: () => getLine("GET /hea\0lth HTTP/1.1"),
    allow: refused,
    uws: uwsDiffers.requestLine,
  },
  {
    name: "8-bit bytes in the target",
    send: () => getLine("GET /h\u00e9alth HTTP/1.1"),
    allow: notFoundOrRefused,
  },
  {
    name: "characters that no URI has in the target",
    send: () => getLine('GET /h"<>\\^`{|}h HTTP/1.1'),
    allow: notFoundOrRefused,
  },
  {
    name: "dot segments",
    send: () => getLine("GET /x/../health HTTP/1.1"),
    allow: ["404", "400.", "200"],
  },
  { name: "an encoded path", send: () => getLine("GET /%68ealth HTTP/1.1"), allow: ["404", "200"] },
  {
    name: "a target of 8000 characters",
    send: () => getLine(`GET /${"a".repeat(8000)} HTTP/1.1`),
    allow: ["404"],
  },
  {
    name: "a target of 70,000 characters",
    send: () => getLine(`GET /${"a".repeat(70_000)} HTTP/1.1`),
    allow: ["414.", "431.", "400."],
    uws: uwsDiffers.lenientHead,
  },

  {
    name: "HTTP/1.0",
    send: () => getLine("GET /health HTTP/1.0"),
    allow: ["200."],
    uws: uwsDiffers.requestLine,
  },
  {
    name: "HTTP/1.0 without Host",
    send: () => "GET /health HTTP/1.0\r\n\r\n",
    allow: ["200."],
    uws: uwsDiffers.requestLine,
  },
  {
    name: "HTTP/1.0 that asks to be kept",
    send: () => getLine("GET /health HTTP/1.0", "Connection: keep-alive"),
    allow: ["200", "200."],
    uws: uwsDiffers.requestLine,
  },
  {
    name: "HTTP/1.0 with a body",
    send: (t) => post(t, [`Content-Length: ${t.body.length}`], t.body, `POST ${t.path} HTTP/1.0`),
    allow: ["ok."],
    uws: uwsDiffers.requestLine,
  },
  {
    name: "HTTP/0.9",
    send: () => "GET /health\r\n",
    allow: ["400.", "505.", "."],
    node: { also: ["?", "408."], why: "llhttp waits for fields, as long as a head may take" },
  },
  { name: "no version", send: () => getLine("GET /health"), allow: ["400.", "505.", "."] },
  ...["HTTP/1.2", "HTTP/1.9", "HTTP/2.0", "HTTP/3.0", "HTTP/9.9"].map((version): FramingCase => ({
    name: version,
    send: () => getLine(`GET /health ${version}`),
    allow: ["200", "505.", "505", "400."],
  })),
  ...[
    "http/1.1",
    "HTTP/1",
    "HTTP/11",
    "HTTP/1.10",
    "HTTP/01.1",
    "HTTP/1,1",
    "HTTP 1.1",
    "XTTP/1.1",
    "HTTPS/1.1",
    "HTTP/ 1.1",
    "HTTP/1.1x",
    "HTTP/-1.1",
  ].map((version): FramingCase => ({
    name: `the version ${version}`,
    send: () => getLine(`GET /health ${version}`),
    allow: ["400.", "505."],
  })),

  {
    name: "two spaces before the target",
    send: () => getLine("GET  /health HTTP/1.1"),
    allow: takenOrRefused,
    uws: uwsDiffers.requestLine,
  },
  {
    name: "two spaces before the version",
    send: () => getLine("GET /health  HTTP/1.1"),
    allow: takenOrRefused,
    uws: uwsDiffers.requestLine,
  },
  {
    name: "a tab before the target",
    send: () => getLine("GET\t/health HTTP/1.1"),
    allow: takenOrRefused,
    uws: uwsDiffers.requestLine,
  },
  {
    name: "a tab before the version",
    send: () => getLine("GET /health\tHTTP/1.1"),
    allow: takenOrRefused,
    uws: uwsDiffers.requestLine,
  },
  {
    name: "a space behind the version",
    send: () => getLine("GET /health HTTP/1.1 "),
    allow: takenOrRefused,
    uws: uwsDiffers.requestLine,
  },
  {
    name: "a space before the line",
    send: () => ` ${get()}`,
    allow: takenOrRefused,
    uws: uwsDiffers.requestLine,
  },
  {
    name: "an empty line before the line",
    send: () => `\r\n${get()}`,
    allow: ["200"],
    uws: uwsDiffers.requestLine,
  },
  {
    name: "a bare LF before the line",
    send: () => `\n${get()}`,
    allow: takenOrRefused,
    uws: uwsDiffers.requestLine,
  },
  {
    name: "a bare LF behind the line",
    send: () => get().replace("\r\n", "\n"),
    allow: takenOrRefused,
    uws: uwsDiffers.requestLine,
  },
  {
    name: "bare LFs everywhere",
    send: () => get().replaceAll("\r\n", "\n"),
    allow: takenOrRefused,
    uws: uwsDiffers.requestLine,
  },
  {
    name: "a bare CR behind the line",
    send: () => get().replace("\r\n", "\r"),
    allow: refused,
    uws: uwsDiffers.requestLine,
  },
  {
    name: "a bare CR in the line",
    send: () => getLine("GET /health\r HTTP/1.1"),
    allow: refused,
    uws: uwsDiffers.requestLine,
  },
  {
    name: "a space before the first field",
    send: () => get().replace("\r\n", "\r\n "),
    allow: takenOrRefused,
    uws: uwsDiffers.brokenHead,
  },
  {
    name: "the line in two packets",
    send: () => [get().slice(0, 14), get().slice(14)],
    allow: ["200"],
    uws: uwsDiffers.splitLine,
  },
  {
    name: "the line cut within the method",
    send: () => [get().slice(0, 2), get().slice(2)],
    allow: ["200"],
    uws: uwsDiffers.splitLine,
  },
  {
    name: "every byte by itself",
    send: () => get().split(""),
    allow: ["200"],
    uws: uwsDiffers.splitLine,
  },
  {
    name: "the last byte of the head by itself",
    send: () => [get().slice(0, -1), get().slice(-1)],
    allow: ["200"],
  },
  {
    name: "a POST cut within its body",
    send: (t) => [plainPost(t).slice(0, -3), plainPost(t).slice(-3)],
    allow: ["ok"],
  },
  {
    name: "a head that never ends, given up",
    send: () => [get().slice(0, -2), finish],
    allow: [".", "400."],
  },
  {
    name: "a line that never ends, given up",
    send: () => ["GET /hea", finish],
    allow: [".", "400."],
    uws: uwsDiffers.splitLine,
  },
];

/** A POST with one field more. */
function field(
  name: string,
  line: string,
  allow: readonly string[] = ["ok"],
  uws: Difference = uwsDiffers.brokenHead,
): FramingCase {
  return { name, send: (t) => plainPost(t, line), allow, uws };
}

/** RFC 9112 section 5, RFC 9110 section 5. */
export const fields: readonly FramingCase[] = [
  field("a name with an underscore", "api_key: z"),
  field("a name with a dot", "a.b: z"),
  field("a name of every other character that a token may have", "a!#$%&'*+^`|~1: z"),
  field("a name of digits", "123: z"),
  field("a name of one character", "a: z"),
  field("a name of 5000 characters", `${"a".repeat(5000)}: z`),
  ...'()/;<=>?@[]{}",\\\u0001\u007f\u0080\u00e9'
    .split("")
    .map((character) => field(`a name with ${JSON.stringify(character)}`, `a${character}b: z`, refused)),
  field("NUL in a name", "a\0b: z", refused),
  field("a space before the colon", "a : z", refused),
  field("a tab before the colon", "a\t: z", refused),
  field("a space in a name", "a b: z", refused),
  field("no name", ": z", refused),
  field("a line without a colon", "abc", refused),
  field("a folded line", "a: b\r\n c", ["ok", ...refused]),
  field("a line folded with a tab", "a: b\r\n\tc", ["ok", ...refused]),
  field("an empty value", "a:"),
  field("white space around a value", "a: \t z \t "),
  field("no white space before a value", "a:z"),
  field("a value of commas and quotes", 'a: ,"\\",;='),
  field("8-bit bytes in a value", "a: \u00e9\u00ff", ["ok", ...refused]),
  field("NUL in a value", "a: b\0c", refused),
  field("a bare CR in a value", "a: b\rc", refused),
  field("a bare CR behind a value", "a: b\r", refused),
  field("a bare LF behind a value", "a: b\nc: d", ["ok", ...refused]),
  field("a control character in a value", "a: b\u0001c", ["ok", ...refused]),
  field("DEL in a value", "a: b\u007fc", ["ok", ...refused]),
  field("a value of 60,000 characters", `a: ${"b".repeat(60_000)}`, ["ok", "431."]),
  field("a value of 70,000 characters", `a: ${"b".repeat(70_000)}`, ["431.", "400."], uwsDiffers.lenientHead),
  field("80 fields", Array.from({ length: 80 }, (_, i) => `a${i}: b`).join("\r\n")),
  field("200 fields", Array.from({ length: 200 }, (_, i) => `a${i}: b`).join("\r\n"), ["ok", "431."]),
  field("20,000 fields", Array.from({ length: 20_000 }, (_, i) => `a${i}: b`).join("\r\n"), ["431.", "400."]),
  field("a name in capitals", "X-UPPER: z"),
];

function host(
  name: string,
  lines: readonly string[],
  allow: readonly string[],
  uws: Difference = uwsDiffers.brokenHead,
): FramingCase {
  return {
    uws,
    name,
    send: () => `${["GET /health HTTP/1.1", ...lines].join("\r\n")}\r\n\r\n`,
    allow,
  };
}

/** RFC 9112 section 3.2, RFC 9110 section 7.2. */
export const hosts: readonly FramingCase[] = [
  host("no Host", [], refused),
  host("no Host but other fields", ["a: b"], refused),
  host("Host twice", ["Host: localhost", "Host: localhost"], refused),
  host("two different Hosts", ["Host: localhost", "Host: other"], refused),
  host("two Hosts with others between", ["Host: a", "b: c", "host: d"], refused),
  host("an empty Host", ["Host:"], takenOrRefused),
  ...["localhost:80", "localhost:", "[::1]", "[::1]:8080", "127.0.0.1:80", "a_b.example", "xn--bcher-kva.example"].map(
    (value) => host(`the Host ${value}`, [`Host: ${value}`], ["200"]),
  ),
  ...[
    "a b",
    "a, b",
    "a/b",
    "a@b",
    "a:b",
    "a:80:80",
    "[::1",
    "::1",
    "a#b",
    "a?b",
    "http://a",
    "a\u0000b",
    "\u00e9a\u00e9b",
    "a\\b",
    "<a>",
    "a:999999",
  ].map((value) => host(`the Host ${JSON.stringify(value)}`, [`Host: ${value}`], refused)),
  host("a Host with bytes beyond ASCII at its end", ["Host: a\u00e9"], refused, uwsDiffers.lenientHead),
  host("a folded Host", ["Host: localhost\r\n other"], refused),
  host("a Host with a space before the colon", ["Host : localhost"], refused),
];
