/** What the fields of a head say about an OTLP body. Hot code: called once for each request. */
import type { BodyEncoding } from "../../ingest/request.js";
import type { OtlpFormat } from "../../wire/otlp/rpc-status.js";
import type { RequestHead } from "../http/request-head.js";

/** The format that the content type names, parameters ignored; null for any other type. */
export function formatOf({ contentType }: Pick<RequestHead, "contentType">): OtlpFormat | null {
  if (contentType === "application/x-protobuf") {
    return "protobuf";
  }
  if (contentType === "application/json") {
    return "json";
  }
  const end = contentType.indexOf(";");
  const essence = (end === -1 ? contentType : contentType.slice(0, end)).trim().toLowerCase();
  if (essence === "application/x-protobuf") {
    return "protobuf";
  }
  return essence === "application/json" ? "json" : null;
}

/** The content coding, or null for one that is not taken; a list is not. */
export function encodingOf({ contentEncoding }: Pick<RequestHead, "contentEncoding">): BodyEncoding | null {
  switch (contentEncoding.toLowerCase()) {
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
