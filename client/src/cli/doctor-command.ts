/** `telemetry doctor`: reaches every address, tries every credential, and says what is wrong and what to do. */
import * as grpc from "@grpc/grpc-js";

import { connect } from "../flight/flight-sql-client.js";
import { FlightSqlError } from "../flight/flight-sql-error.js";
import type { Row } from "../flight/query-result.js";
import { escapeControls } from "../shared/escape-controls.js";
import { isObject } from "../shared/is-object.js";
import { cellText } from "../values/arrow-values.js";
import { openWeb } from "./admin/ask-web.js";
import { webSettings } from "./admin/flags.js";
import { routes } from "./admin/routes.js";
import { type CommandContext, type Define, exitCodes } from "./context.js";
import { showJson } from "./formats/show.js";
import { ingestionAddress, telemetryUrl } from "./ingestion-address.js";
import { type Values, addSettings, readSettings, shared } from "./settings.js";
import { chosenAuth } from "./sign-in.js";
import { createOutput } from "./terminal.js";

const timeoutMs = 5000;
/** Tokens and certificates allow for about as much. */
const toleratedSkewSeconds = 30;

const settings = {
  json: shared.json,
  analyticsUri: shared.analyticsUri,
  analyticsApiKey: shared.analyticsApiKey,
  telemetryUrl,
  ...webSettings,
} as const;

/** What a check found. */
interface Finding {
  readonly check: string;
  /** `skipped`: there was nothing to check, which may be as it should be. */
  readonly result: "ok" | "failed" | "skipped";
  readonly detail: string;
}

/** `telemetry doctor`. */
export const defineDoctor: Define = (command, runs, context) => {
  addSettings(command, settings);
  runs(command, async () => {
    const { terminal } = context;
    const values = readSettings(command, context.env, settings);
    const checks: (() => Promise<readonly Finding[]>)[] = [
      async () =>
        checkHealth(
          "ingestion",
          await ingestionAddress(values, terminal.interrupted),
          "--telemetry-url or SVC_TELEMETRY_URL",
        ),
      () => checkSending(context),
      () => checkAnalytics(values, context),
      () => checkHealth("web", values.webUrl, "--web-url or SVC_WEB_URL"),
      () => checkLogin(values, context),
    ];
    const findings: Finding[] = [];
    const output = createOutput(terminal);
    for (const check of checks) {
      if (terminal.interrupted.aborted) {
        return exitCodes.interrupted;
      }
      for (const finding of await check()) {
        findings.push(finding);
        if (!values.json) {
          await output.write(lineOf(finding, terminal.stdout.isTTY === true));
        }
      }
    }
    await output.flush();
    if (values.json) {
      await showJson(findings, terminal);
    }
    return findings.some(({ result }) => result === "failed") ? exitCodes.failed : exitCodes.ok;
  });
};

function lineOf({ check, result, detail }: Finding, colours: boolean): string {
  const word = { ok: "ok", failed: "FAILED", skipped: "-" }[result].padEnd(7);
  const colour = { ok: "\u001b[32m", failed: "\u001b[31m", skipped: "" }[result];
  const shown = colours && colour !== "" ? `${colour}${word}\u001b[0m` : word;
  return `${shown} ${check.padEnd(12)} ${escapeControls(detail)}\n`;
}

function sentence(error: unknown): string {
  const message = error instanceof Error ? error.message : "unknown";
  const advice = error instanceof FlightSqlError ? error.advice : null;
  return advice === null ? message : `${message}; ${advice}`;
}

/** Reaches a server of HTTP, and compares its clock with this machine's. */
async function checkHealth(check: string, url: string, setting: string): Promise<readonly Finding[]> {
  const health = `${url.replace(/\/ingestion\/otlp\/?$/, "").replace(/\/+$/, "")}/health`;
  let response: Response;
  const sentMs = Date.now();
  try {
    response = await fetch(health, { signal: AbortSignal.timeout(timeoutMs) });
    await response.arrayBuffer();
  } catch (error) {
    const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
    const code = cause instanceof Error && "code" in cause ? String(cause.code) : sentence(cause);
    return [
      { check, result: "failed", detail: `${url} cannot be reached (${code}); is it the address? ${setting} says it` },
    ];
  }
  const tookMs = Date.now() - sentMs;
  if (!response.ok) {
    return [{ check, result: "failed", detail: `${health} answered ${response.status}; its log says why` }];
  }
  const findings: Finding[] = [{ check, result: "ok", detail: `${url} answers in ${tookMs} ms` }];
  const dateMs = Date.parse(response.headers.get("date") ?? "");
  if (Number.isFinite(dateMs)) {
    const skew = Math.round((dateMs - (sentMs + tookMs / 2)) / 1000);
    const off = Math.abs(skew) > toleratedSkewSeconds;
    const detail = off
      ? `this machine's clock is ${Math.abs(skew)} s ${skew > 0 ? "behind" : "ahead of"} that of ${url}; set it by NTP`
      : `agrees with ${url}`;
    findings.push({ check: "clock", result: off ? "failed" : "ok", detail });
  }
  return findings;
}

/** Sends an empty request as an OpenTelemetry SDK of this environment would; it stores nothing. */
async function checkSending({ env }: CommandContext): Promise<readonly Finding[]> {
  const check = "sending";
  const endpoint = env["OTEL_EXPORTER_OTLP_ENDPOINT"];
  if (endpoint === undefined || endpoint === "") {
    const detail = "OTEL_EXPORTER_OTLP_ENDPOINT is not set; for a key and the variables run: telemetry setup";
    return [{ check, result: "skipped", detail }];
  }
  const overGrpc = env["OTEL_EXPORTER_OTLP_PROTOCOL"] === "grpc";
  const url = overGrpc ? endpoint : `${endpoint.replace(/\/+$/, "")}/v1/logs`;
  try {
    const headers = headersOf(env["OTEL_EXPORTER_OTLP_HEADERS"] ?? "");
    const refusal = await (overGrpc ? refusalOfGrpc(endpoint, headers) : refusalOfHttp(url, headers));
    return refusal === null
      ? [{ check, result: "ok", detail: `${url} takes requests of this environment` }]
      : [{ check, result: "failed", detail: `${url} answered ${refusal}` }];
  } catch (error) {
    const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
    return [{ check, result: "failed", detail: `${url}: ${sentence(cause)}; OTEL_EXPORTER_OTLP_ENDPOINT says it` }];
  }
}

/** `name=value,name=value`, values percent-encoded. @throws URIError for a broken encoding */
function headersOf(list: string): Readonly<Record<string, string>> {
  return Object.fromEntries(
    list
      .split(",")
      .filter((pair) => pair.includes("="))
      .map((pair) => [
        pair.slice(0, pair.indexOf("=")).trim(),
        decodeURIComponent(pair.slice(pair.indexOf("=") + 1).trim()),
      ]),
  );
}

const noKey = "OTEL_EXPORTER_OTLP_HEADERS has no key that it accepts; for a new one run: telemetry setup";

/** What the server said to an empty request, and what to do; null: it took it. */
async function refusalOfHttp(url: string, headers: Readonly<Record<string, string>>): Promise<string | null> {
  const response = await fetch(url, {
    method: "POST",
    headers: { ...headers, "content-type": "application/json" },
    body: "{}",
    redirect: "manual",
    signal: AbortSignal.timeout(timeoutMs),
  });
  await response.arrayBuffer();
  if (response.ok) {
    return null;
  }
  const why = response.status === 401 ? noKey : "is it the address of the ingestion server, with /ingestion/otlp?";
  return `${response.status}: ${why}`;
}

const exportLogs = "/opentelemetry.proto.collector.logs.v1.LogsService/Export";

/** The same over OTLP/gRPC. */
async function refusalOfGrpc(endpoint: string, headers: Readonly<Record<string, string>>): Promise<string | null> {
  // As the exporters take it: an address without a scheme has no TLS.
  const { protocol, host } = new URL(endpoint.includes("://") ? endpoint : `http://${endpoint}`);
  const secured = protocol === "https:";
  const target = host.includes(":") ? host : `${host}:${secured ? 443 : 80}`;
  const client = new grpc.Client(target, secured ? grpc.credentials.createSsl() : grpc.credentials.createInsecure());
  const metadata = new grpc.Metadata();
  for (const [name, value] of Object.entries(headers)) {
    metadata.set(name, value);
  }
  const bytes = (message: Buffer): Buffer => message;
  try {
    return await new Promise((resolve) => {
      const deadline = Date.now() + timeoutMs;
      client.makeUnaryRequest(exportLogs, bytes, bytes, Buffer.alloc(0), metadata, { deadline }, (error) => {
        if (error === null) {
          resolve(null);
          return;
        }
        const why =
          error.code === grpc.status.UNAUTHENTICATED
            ? noKey
            : `${error.details}; is it the address of OTLP/gRPC, which SVC_OTLP_GRPC_LISTEN says on the server?`;
        resolve(`${grpc.status[error.code]}: ${why}`);
      });
    });
  } finally {
    client.close();
  }
}

/** Asks the analytics server for its version and for what the credential may read. */
async function checkAnalytics(values: Values<typeof settings>, context: CommandContext): Promise<readonly Finding[]> {
  const check = "analytics";
  const { analyticsUri: uri } = values;
  try {
    const auth = await chosenAuth(values, context);
    const client = connect({ uri, auth, clientName: "telemetry-cli", connectTimeoutMs: timeoutMs });
    try {
      const sentMs = Date.now();
      const info = await client.sqlInfo(0, 1);
      const tookMs = Date.now() - sentMs;
      const [name, version] = [0, 1].map((id) => cellText(info.get(id) ?? null) ?? "unknown");
      const answers: Finding = { check, result: "ok", detail: `${uri} answers in ${tookMs} ms: ${name} ${version}` };
      const other = version === context.version || context.version === "test";
      const versions: Finding[] = other
        ? []
        : [{ check: "versions", result: "ok", detail: `this client is ${context.version}, the server ${version}` }];
      const query = "SELECT (SELECT count(*) FROM processes) AS n, (SELECT max(insert_time) FROM blocks) AS t";
      const { value: row } = await (await client.query(query, { signal: context.terminal.interrupted })).rows().next();
      const [count, newest] = ["n", "t"].map((column) => cellText((row as Row | undefined)?.[column] ?? null));
      const readable: Finding =
        count !== "0"
          ? {
              check: "reading",
              result: "ok",
              detail: `${count} processes can be read, the newest data is of ${newest}`,
            }
          : {
              check: "reading",
              result: "failed",
              detail: "there is nothing that this credential may read; telemetry grants mine shows your grants",
            };
      return [answers, ...versions, readable];
    } finally {
      client.close();
    }
  } catch (error) {
    return [{ check, result: "failed", detail: `${uri}: ${sentence(error)}` }];
  }
}

/** Asks the web server who the login is. */
async function checkLogin(values: Values<typeof settings>, context: CommandContext): Promise<readonly Finding[]> {
  const check = "login";
  try {
    const rights = await (await openWeb(values, context))({ ...routes.myAudiences });
    if (!isObject(rights)) {
      return [{ check, result: "failed", detail: `${values.webUrl} is not the web server of this service` }];
    }
    const list = (name: string): string => {
      const all = rights[name];
      return Array.isArray(all) && all.length > 0 ? all.join(", ") : "nothing";
    };
    const role = rights["is_admin"] === true ? ", an administrator," : "";
    const detail = `${String(rights["email"])}${role} reads ${list("read")} and mints for ${list("mint")}`;
    return [{ check, result: "ok", detail }];
  } catch (error) {
    const missing = error instanceof Error && "code" in error && error.code === "LOGIN_REQUIRED";
    return [{ check, result: missing ? "skipped" : "failed", detail: sentence(error) }];
  }
}
