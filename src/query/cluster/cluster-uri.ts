/** The address of a cluster, as clients of Spark Connect write it: `sc://host:port/;key=value;...`. */
import { ServiceError } from "../../runtime/errors.js";

/** Where a cluster is and how it is spoken to. */
export interface ClusterAddress {
  /** `host:port`. */
  readonly target: string;
  readonly tls: boolean;
  /** Sent as a bearer token. */
  readonly token: string | null;
  readonly userId: string;
}

const form =
  /^sc:\/\/(?<host>\[[0-9a-fA-F:.]+\]|[^\s/:;[\]@]+)(?::(?<port>\d{1,5}))?(?:\/(?<parameters>(?:;[^;=\s]+=[^;]*)*);?)?$/u;

/** @throws ServiceError NOT_CONFIGURED; the message has nothing of the text, which may hold a token */
export function parseClusterUri(uri: string): ClusterAddress {
  const groups = form.exec(uri)?.groups;
  const refuse = (why: string): ServiceError => new ServiceError("NOT_CONFIGURED", `SVC_QUERY_CLUSTER_URI ${why}`);
  if (groups?.["host"] === undefined) {
    throw refuse("must look like sc://host:15002 or sc://host:15002/;use_ssl=true;token=....");
  }
  const port = Number(groups["port"] ?? "15002");
  if (port < 1 || port > 65_535) {
    throw refuse("has a port that is none.");
  }
  const parameters = new Map(
    (groups["parameters"] ?? "")
      .split(";")
      .filter((pair) => pair !== "")
      .map((pair) => {
        const at = pair.indexOf("=");
        return [pair.slice(0, at).toLowerCase(), decode(pair.slice(at + 1), refuse)] as const;
      }),
  );
  const {
    use_ssl: ssl = "false",
    token = null,
    user_id: userId = "telemetry-service",
    ...others
  } = Object.fromEntries(parameters) as Readonly<Record<string, string | undefined>>;
  const [unknown] = Object.keys(others);
  if (unknown !== undefined) {
    throw refuse(`has a parameter that is not known: ${unknown}; known are token, use_ssl and user_id.`);
  }
  if (ssl !== "true" && ssl !== "false") {
    throw refuse("takes use_ssl=true or use_ssl=false.");
  }
  // As everywhere in Spark Connect: a token is not sent in the clear.
  return { target: `${groups["host"]}:${port}`, tls: ssl === "true" || token !== null, token: token ?? null, userId };
}

function decode(text: string, refuse: (why: string) => ServiceError): string {
  try {
    return decodeURIComponent(text);
  } catch (error) {
    throw Object.assign(refuse("has a parameter with a % that starts no character."), { cause: error });
  }
}
