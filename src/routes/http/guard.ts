/** What both drivers do alike around a handler and around an address. */
import { ServiceError } from "../../runtime/errors.js";
import type { RequestHead } from "./request-head.js";
import type { HttpHandler, HttpListenOptions, HttpReply, HttpRequest } from "./seam.js";

/** Judges the framing before anything else, and keeps a handler's defect from ending the process. */
export function guard(
  reply: HttpReply,
  request: HttpRequest,
  handler: HttpHandler,
  head: RequestHead,
  o: Pick<HttpListenOptions, "logger">,
): void {
  try {
    head.read(request);
    if (head.framingProblem === null) {
      handler.handle(reply, request, head);
    } else {
      handler.malformed(reply, request, head);
    }
  } catch (error) {
    o.logger.error({ err: error }, "a request handler failed");
    reply.close();
  }
}

/** What an operator reads when an address is taken. */
export function addressTaken(
  o: Pick<HttpListenOptions, "host" | "port" | "purpose" | "option" | "dispensable">,
  cause?: unknown,
): ServiceError {
  return new ServiceError(
    "UNAVAILABLE",
    `cannot listen on ${o.host}:${o.port} for ${o.purpose}: the address is in use or not of this machine; set ${o.option} to another${o.dispensable === true ? ", or to the empty string to do without" : ""}`,
    cause === undefined ? {} : { cause },
  );
}
