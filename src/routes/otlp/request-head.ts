/**
 * The head of a request: its framing, and the fields that the OTLP routes read.
 *
 * Hot code: one instance per front end, overwritten by every request, so nothing of it may be kept.
 *
 * uWebSockets.js takes the first of several `Content-Length` fields and treats any
 * `Transfer-Encoding` as chunked. Two parties that disagree about where a body ends are how requests
 * are smuggled, so whatever leaves room for disagreement is a framing error here (RFC 9112
 * sections 6.1 to 6.3): any repetition of either field, both together, any coding but `chunked`, any length
 * that is not plain digits.
 */
import type { HttpRequest } from "uWebSockets.js";

import type { BodyEncoding } from "../../ingest/request.js";
import { ownTelemetryHeader } from "../../wire/own-telemetry.js";
import type { OtlpFormat } from "../../wire/rpc-status.js";

const plainDigits = /^\d{1,15}$/;
/** In place of several `Authorization` fields; no credential (RFC 9110 section 11.4). */
const severalCredentials = ",";

/** See the head of this file. */
export class RequestHead {
  /** Null, or why the message cannot be framed without doubt: 400 and close. */
  framingProblem: string | null = null;
  /** Bytes of the body as announced; -1 when it is chunked or nothing was announced. */
  contentLength = -1;
  chunked = false;
  /** The `Authorization` field, the empty string when there is none. */
  authorization = "";
  /** The request says that it carries the telemetry of a server of this service. */
  ownTelemetry = false;
  #contentType = "";
  #contentEncoding = "";
  #seenLength = false;
  #seenAuthorization = false;
  readonly #visit = (name: string, value: string): void => {
    this.#field(name, value);
  };

  /** Reads a request; everything of the one before is gone. */
  read(request: HttpRequest): void {
    this.framingProblem = null;
    this.contentLength = -1;
    this.chunked = false;
    this.authorization = "";
    this.ownTelemetry = false;
    this.#contentType = "";
    this.#contentEncoding = "";
    this.#seenLength = false;
    this.#seenAuthorization = false;
    request.forEach(this.#visit);
    if (this.chunked && this.#seenLength) {
      this.framingProblem = "both Content-Length and Transfer-Encoding";
    }
  }

  /** The format that the content type names, parameters ignored; null for any other type. */
  get format(): OtlpFormat | null {
    const type = this.#contentType;
    if (type === "application/x-protobuf") return "protobuf";
    if (type === "application/json") return "json";
    const end = type.indexOf(";");
    const essence = (end === -1 ? type : type.slice(0, end)).trim().toLowerCase();
    if (essence === "application/x-protobuf") return "protobuf";
    return essence === "application/json" ? "json" : null;
  }

  /** The content coding, or null for one that is not taken. */
  get encoding(): BodyEncoding | null {
    switch (this.#contentEncoding.toLowerCase()) {
      case "":
      case "identity":
        return "identity";
      case "gzip":
      case "x-gzip": // RFC 9110 section 8.4.1.3: equivalent to gzip
        return "gzip";
      case "deflate":
        return "deflate";
      case "zstd":
        return "zstd";
      default:
        return null;
    }
  }

  #field(name: string, value: string): void {
    switch (name) {
      case "content-length":
        if (this.#seenLength) this.framingProblem = "several Content-Length fields";
        else if (plainDigits.test(value)) this.contentLength = Number(value);
        else this.framingProblem = "a Content-Length that is not a number";
        this.#seenLength = true;
        break;
      case "transfer-encoding":
        if (this.chunked) this.framingProblem = "several Transfer-Encoding fields";
        else if (value.toLowerCase() !== "chunked") {
          this.framingProblem = "a Transfer-Encoding other than chunked";
        }
        this.chunked = true;
        break;
      case "authorization":
        // Which of several credentials counts must not depend on who reads them: none does.
        this.authorization = this.#seenAuthorization ? severalCredentials : value;
        this.#seenAuthorization = true;
        break;
      case "content-type":
        if (this.#contentType === "") this.#contentType = value;
        break;
      case "content-encoding":
        // Repeated fields are one list (RFC 9110 section 5.3), and a list is not taken.
        this.#contentEncoding =
          this.#contentEncoding === "" ? value : `${this.#contentEncoding},${value}`;
        break;
      case ownTelemetryHeader:
        this.ownTelemetry = true;
        break;
      default:
    }
  }
}
