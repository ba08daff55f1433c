/** What the driver `uws` does otherwise than the standards say, class by class, in the words of SECURITY.md. */
import type { Difference } from "./framing.js";

/** Two generations of the addon are in use; where one refuses what the other leaves hanging, either may be. */
export const uwsDiffers = {
  requestLine: {
    why: "Targets in absolute form, `OPTIONS *`, HTTP/1.0, an empty line before a request and further white space in its first line get 505 or 400.",
    also: ["505.", "400."],
  },
  lenientHead: {
    why: "The characters of a method and of a target are not checked, bytes beyond ASCII at either end of a field's value are dropped, and a head that arrives at once may be larger than 64 KiB.",
    also: ["200", "404", "405", "ok", "ok."],
  },
  brokenHead: {
    why: "never answer a request whose head is malformed, has a field name such as `api_key` or more than some hundred fields",
    also: ["?", ".", "200?", "200.", "400.", "505."],
  },
  splitLine: { why: "refuse a request line that arrives in two packets (505)", also: ["505."] },
  lenientChunks: {
    why: "Chunks are read leniently: junk and a bare LF behind a size, bytes other than CRLF behind the data and at the end.",
    also: ["ok.", "505.", "400.", ".", "?"],
  },
  trailers: {
    why: "Chunk extensions and trailers end the connection with 505 or without an answer, or wait for the end of the time that a body may take.",
    also: ["505.", "400.", ".", "?"],
  },
  pipelining: {
    why: "A request behind one that is not answered yet (pipelining), and a client that closes its side after sending, lose the connection without an answer.",
    also: [".", "505.", "400.", "ok 505.", "200 505.", "200 ok.", "200."],
  },
  noBody: {
    why: "A chunked request to what takes no body gets 400.",
    also: ["400."],
  },
  close: {
    why: "`Connection: close` counts only where it stands alone and nothing was sent behind it.",
    also: ["200", "200 200"],
  },
  expect: {
    why: "`Expect: 100-continue` gets `100` before the credential is looked at.",
    also: ["100 ok", "100 ok.", "100 200", "505.", "400.", "100 400."],
  },
} as const satisfies Readonly<Record<string, Difference>>;
