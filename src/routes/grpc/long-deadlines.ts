/**
 * Drops deadlines of more than 24 days. The library keeps the time until then in 31 bits of milliseconds: it ended such
 * calls at once, or at any other time. No call of ours takes that long.
 */
import type { Server } from "@grpc/grpc-js";
import type { IncomingHttpHeaders, ServerHttp2Stream } from "node:http2";

import { http2ServersOf } from "./http2-servers.js";

const longestMs = 2 ** 31 - 1;
const header = "grpc-timeout";
/** Units in which eight digits, the most there are, can be too much. */
const unitMs: Readonly<Record<string, number>> = { S: 1000, M: 60_000, H: 3600_000 };

/**
 * From now on the server takes any deadline. Call it when the server is bound.
 * @throws ServiceError INTERNAL when the library has changed, rather than serve without
 */
export function takeLongDeadlines(server: Server): void {
  for (const http2 of http2ServersOf(server)) {
    // In front of the library's own listener, which reads the same object.
    http2.prependListener("stream", (_stream: ServerHttp2Stream, headers: IncomingHttpHeaders) => {
      const { amount, unit } = /^(?<amount>\d+)(?<unit>[SMH])$/u.exec(String(headers[header]))?.groups ?? {};
      if (Number(amount) * (unitMs[unit ?? ""] ?? 0) > longestMs) {
        delete headers[header];
      }
    });
  }
}
