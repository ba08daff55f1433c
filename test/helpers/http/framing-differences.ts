/** What the driver `uws` does otherwise than the standards say, class by class, in the sentences of SECURITY.md. */
import type { Difference } from "./framing.js";

/** Two generations of the addon are in use; where one refuses what the other leaves hanging, either may be. */
export const uwsDiffers = {
  requestLine: {
    why: "Targets in absolute form, `OPTIONS *`, HTTP/1.0, an empty line before a request and extra white space in its first line get 505 or 400.",
    also: ["505.", "400."],
  },
  lenientHead: {
    why: "A method and a target may contain any character, bytes beyond ASCII at either end of a field value are dropped, and a head that arrives at once may exceed 64 KiB.",
    also: ["200", "404", "405", "ok", "ok."],
  },
  brokenHead: {
    why: "never answer a request whose head is malformed, has a field name such as `api_key` or has more than about a hundred fields",
    also: ["?", ".", "200?", "200.", "400.", "505."],
  },
  splitLine: { why: "refuse a request line that arrives in two packets (505)", also: ["505."] },
  lenientChunks: {
    why: "Chunks are read leniently: junk or a bare LF may follow a size, and bytes other than CRLF the data and the last chunk.",
    also: ["ok.", "505.", "400.", ".", "?"],
  },
  trailers: {
    why: "Chunk extensions and trailers end the connection, with 505 or without an answer, or wait until the body times out.",
    also: ["505.", "400.", ".", "?"],
  },
  pipelining: {
    why: "A client that sends a request before the previous one is answered (pipelining), or closes its side after sending, loses the connection without an answer.",
    also: [".", "505.", "400.", "ok 505.", "200 505.", "200 ok.", "200."],
  },
  noBody: {
    why: "A chunked request to a route that takes no body gets 400.",
    also: ["400."],
  },
  close: {
    why: "`Connection: close` counts only when it is the only option and no bytes follow the request.",
    also: ["200", "200 200"],
  },
  expect: {
    why: "`Expect: 100-continue` gets `100` before the credential is checked.",
    also: ["100 ok", "100 ok.", "100 200", "505.", "400.", "100 400."],
  },
} as const satisfies Readonly<Record<string, Difference>>;
