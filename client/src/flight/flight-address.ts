/** Where a Flight SQL server listens. */
import { isLoopbackHost } from "../shared/loopback.js";

const defaultPort = 50051;

/** A parsed address. */
export interface FlightSqlAddress {
  /** `host:port`. */
  readonly target: string;
  readonly tls: boolean;
  /** The connection does not leave this machine. */
  readonly loopback: boolean;
}

/** Whether {@link parseFlightSqlUri} takes it. */
export function isFlightSqlUri(uri: string): boolean {
  try {
    parseFlightSqlUri(uri);
    return true;
  } catch {
    return false;
  }
}

/**
 * Reads `grpc://host[:port]` or `grpc+tls://host[:port]`; the port defaults to 50051.
 * @throws TypeError for anything else; the message says what it takes.
 */
export function parseFlightSqlUri(uri: string): FlightSqlAddress {
  const match = /^(grpc|grpc\+tls|grpc\+tcp):\/\/(\[[0-9a-fA-F:.]+\]|[^/:@?#\s]+)(?::(\d{1,5}))?\/?$/.exec(uri);
  const port = Number(match?.[3] ?? defaultPort);
  if (match === null || port < 1 || port > 65_535) {
    throw new TypeError("the analytics URI takes grpc://host:port or grpc+tls://host:port");
  }
  const host = match[2] ?? "";
  return {
    target: `${host}:${port}`,
    tls: match[1] === "grpc+tls",
    loopback: isLoopbackHost(host),
  };
}
