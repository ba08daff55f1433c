/**
 * The head of a request: its framing, and the fields that every server reads.
 *
 * Hot code: one instance per listener, overwritten by every request, so nothing of it may be kept.
 *
 * Requests are smuggled where two parties disagree about the end of a body. So every ambiguity is a framing error here
 * (RFC 9112 sections 3.2 and 6.1 to 6.3): any repetition of `Content-Length` or `Transfer-Encoding`, both together, any
 * coding but `chunked`, any length that is not plain digits, several hosts. uWebSockets.js does not look at any of
 * that, and takes what follows a chunked body for the next request, trailers included: under that driver a chunked
 * request is the last one of its connection ({@link RequestHead.lastOfConnection}).
 */
import { ownTelemetryHeader } from "../../wire/otlp/own-telemetry.js";
import type { HttpDriver, HttpRequest } from "./seam.js";

const plainDigits = /^\d{1,15}$/;
/** By a pattern, because `toLowerCase` makes a k of the Kelvin sign. */
const chunkedCoding = /^chunked$/i;
/** RFC 3986 section 3.2: a name or an address with an optional port. */
const hostSyntax = /^(?:[A-Za-z0-9._~!$&'()*+,;=%-]+|\[[0-9A-Fa-f:.]+\])(?::\d{0,5})?$/;
/** In place of several `Authorization` fields; no credential (RFC 9110 section 11.4). */
const severalCredentials = ",";

/** See the head of this file. */
export class RequestHead {
  /** Null, or why the message cannot be framed without doubt: 400 and close. */
  framingProblem: string | null = null;
  /** Bytes of the body as announced; -1 when it is chunked or nothing was announced. */
  contentLength = -1;
  chunked = false;
  /** The client waits for `100 Continue` before it sends the body. */
  expectsContinue = false;
  /** The `Authorization` field, the empty string when there is none. */
  authorization = "";
  /** The first `Content-Type` field, or the empty string. */
  contentType = "";
  /** `Content-Encoding`, repeated fields joined (RFC 9110 section 5.3), or the empty string. */
  contentEncoding = "";
  /** The request says that it carries the telemetry of a server of this service. */
  ownTelemetry = false;
  /** Whether the parser below takes more for a request than there is. */
  readonly #lenientParser: boolean;
  #seenLength = false;
  #seenAuthorization = false;
  #seenHost = false;
  readonly #visit = (name: string, value: string): void => {
    this.#field(name, value);
  };

  constructor(driver: HttpDriver) {
    this.#lenientParser = driver === "uws";
  }

  /** The answer has to end the connection, whatever follows the request ({@link writeLastAnswer}). */
  get lastOfConnection(): boolean {
    return this.#lenientParser && this.chunked;
  }

  /** Reads a request; everything of the one before is gone. */
  read(request: HttpRequest): void {
    this.framingProblem = null;
    this.contentLength = -1;
    this.chunked = false;
    this.expectsContinue = false;
    this.authorization = "";
    this.contentType = "";
    this.contentEncoding = "";
    this.ownTelemetry = false;
    this.#seenLength = false;
    this.#seenAuthorization = false;
    this.#seenHost = false;
    request.forEach(this.#visit);
    if (this.chunked && this.#seenLength) {
      this.framingProblem = "both Content-Length and Transfer-Encoding";
    }
  }

  #field(name: string, value: string): void {
    switch (name) {
      case "content-length":
        if (this.#seenLength) {
          this.framingProblem = "several Content-Length fields";
        } else if (plainDigits.test(value)) {
          this.contentLength = Number(value);
        } else {
          this.framingProblem = "a Content-Length that is not a number";
        }
        this.#seenLength = true;
        break;
      case "transfer-encoding":
        if (this.chunked) {
          this.framingProblem = "several Transfer-Encoding fields";
        } else if (!chunkedCoding.test(value)) {
          this.framingProblem = "a Transfer-Encoding other than chunked";
        }
        this.chunked = true;
        break;
      case "host":
        if (this.#seenHost) {
          this.framingProblem = "several Host fields";
        } else if (value !== "" && !hostSyntax.test(value)) {
          this.framingProblem = "a Host that is neither a name nor an address";
        }
        this.#seenHost = true;
        break;
      case "authorization":
        // Which of several credentials counts must not depend on who reads them: none does.
        this.authorization = this.#seenAuthorization ? severalCredentials : value;
        this.#seenAuthorization = true;
        break;
      case "content-type":
        if (this.contentType === "") {
          this.contentType = value;
        }
        break;
      case "content-encoding":
        this.contentEncoding = this.contentEncoding === "" ? value : `${this.contentEncoding},${value}`;
        break;
      case "expect":
        this.expectsContinue = value.toLowerCase() === "100-continue";
        break;
      case ownTelemetryHeader:
        this.ownTelemetry = true;
        break;
      default:
    }
  }
}
