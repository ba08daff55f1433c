import { metrics, trace } from "@opentelemetry/api";
import { logs } from "@opentelemetry/api-logs";
import { ClientCredentialsProvider } from "telemetry-service-client";
import { configureTelemetry } from "telemetry-service-client/telemetry";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";

import { makeSigningKey, startOidcProvider, type TestProvider } from "../helpers/auth/auth-oidc-provider.js";
import { startTestIngestion, type TestIngestion } from "../helpers/servers/ingest-server.js";

let provider: TestProvider;
let ingestion: TestIngestion;
let tokenRequests: number;

beforeAll(async () => {
  provider = await startOidcProvider({ key: await makeSigningKey("first") });
  const issuers = [{ issuer: provider.issuer, audience: provider.clientId }];
  ingestion = await startTestIngestion({ environment: { SVC_OIDC_CONFIG: JSON.stringify({ issuers }) } });
});
beforeEach(() => {
  tokenRequests = 0;
  provider.intercept((path) => {
    tokenRequests += path === "/token" ? 1 : 0;
    return null;
  });
});
afterAll(async () => {
  await ingestion?.stop();
  await provider?.stop();
});

/** Says something in each of the three ways, by the global API as applications do. */
function say(word: string): void {
  const tracer = trace.getTracer("test");
  tracer.startActiveSpan(`outer ${word}`, (outer) => {
    tracer.startSpan(`inner ${word}`).end();
    logs.getLogger("test").emit({ body: word });
    outer.end();
  });
  metrics.getMeter("test").createCounter(`counter_${word}`).add(3);
}

async function stored(word: string): Promise<Record<string, unknown>> {
  const named = async (table: "log_entries" | "measures" | "spans", condition: string) =>
    (await ingestion.rows(table)).filter((row) => Object.values(row).some((value) => value === condition));
  const [log] = await named("log_entries", word);
  const [measure] = await named("measures", `counter_${word}`);
  const [outer] = await named("spans", `outer ${word}`);
  const [inner] = await named("spans", `inner ${word}`);
  return {
    service: [log, measure, outer].map((row) => row?.["service_name"]),
    nested: inner?.["parent_span_id"] === outer?.["span_id"] && log?.["span_id"] === outer?.["span_id"],
    value: Number(measure?.["value"]),
  };
}

describe("an application that sends", () => {
  it("with a key", async () => {
    const telemetry = await configureTelemetry({
      env: {
        SVC_TELEMETRY_URL: ingestion.url,
        SVC_INGESTION_API_KEY: ingestion.key,
        OTEL_RESOURCE_ATTRIBUTES: "service.name=over,deployment=a%20b",
        OTEL_SERVICE_NAME: "shop",
      },
    });
    say("keyed");
    await telemetry.shutdown();
    expect(await stored("keyed")).toEqual({ service: ["shop", "shop", "shop"], nested: true, value: 3 });
  });

  it("with client credentials, by one token for all three signals", async () => {
    const telemetry = await configureTelemetry({
      serviceName: "batch",
      env: {
        SVC_TELEMETRY_URL: `${ingestion.url}/`,
        SVC_OIDC_TOKEN_ENDPOINT: `${provider.issuer}/token`,
        SVC_OIDC_CLIENT_ID: provider.clientId,
        SVC_OIDC_CLIENT_SECRET: "secret",
      },
    });
    say("granted");
    await telemetry.flush();
    expect(await stored("granted")).toEqual({ service: ["batch", "batch", "batch"], nested: true, value: 3 });
    await telemetry.shutdown();
    expect(tokenRequests).toBe(1);
  });

  it("with a provider of its own", async () => {
    const auth = new ClientCredentialsProvider({
      tokenEndpoint: `${provider.issuer}/token`,
      clientId: provider.clientId,
      clientSecret: "secret",
    });
    const telemetry = await configureTelemetry({ url: ingestion.url, auth, serviceName: "own", env: {} });
    say("owned");
    await telemetry.shutdown();
    expect(await stored("owned")).toMatchObject({ value: 3 });
  });

  it("is told what is missing before anything is sent", async () => {
    await expect(configureTelemetry({ env: {} })).rejects.toThrow("SVC_TELEMETRY_URL is not set");
    await expect(configureTelemetry({ env: { SVC_TELEMETRY_URL: "ftp://x" } })).rejects.toThrow("http://host:port");
    const half = { SVC_TELEMETRY_URL: ingestion.url, SVC_OIDC_TOKEN_ENDPOINT: `${provider.issuer}/token` };
    await expect(configureTelemetry({ env: half })).rejects.toThrow("SVC_OIDC_CLIENT_ID and SVC_OIDC_CLIENT_SECRET");
  });
});
