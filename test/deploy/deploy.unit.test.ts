/** What is under `deploy/` starts programs that exist, with options that they read, on ports that others look for. */
import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync } from "node:fs";

import { describe, expect, it } from "vitest";
import { parse, parseAllDocuments } from "yaml";

import { conventions, keepAlive } from "../../src/db/sql.js";
import { parseClusterUri } from "../../src/query/cluster/cluster-uri.js";
import { httpRoutes } from "../../src/routes/otlp/front.js";
import { options } from "../../src/runtime/config/options.js";
import type { Environment } from "../../src/runtime/config/parse-options.js";
import { parseCommandLine } from "../../src/runtime/config/parse.js";
import type { Role } from "../../src/runtime/config/table.js";
import { sailVersion } from "../helpers/query/sail.js";
import { sparkVersion } from "../helpers/query/spark.js";

const roles: Readonly<Record<string, Role>> = {
  "dist/src/bin/telemetry-ingestion-srv.js": "ingestion",
  "dist/src/bin/flight-sql-srv.js": "analytics",
  "dist/src/bin/analytics-web-srv.js": "web",
  "dist/src/bin/object-cache-srv.js": "object-cache",
  "dist/src/bin/telemetry-maintenance-srv.js": "maintenance",
  "dist/src/bin/telemetry-monolith.js": "monolith",
};

const read = (file: string): string => readFileSync(file, "utf8");

/** What a program would run with. */
function configured([file = "", ...argv]: readonly string[], env: Environment): Listens {
  const role = roles[file];
  if (role === undefined || !existsSync(file)) {
    throw new Error(`${file} is none of the programs`);
  }
  const line = parseCommandLine(role, { name: file, version: "0", summary: "" }, argv, env);
  expect(line).toMatchObject({ kind: "run", warnings: [] });
  return portsOf(env);
}

type Listens = readonly number[];

/** Ports of `SVC_*_LISTEN`, all of which are open to other machines. */
function portsOf(env: Environment): Listens {
  const listens = Object.entries(env).filter(([name]) => name.endsWith("_LISTEN"));
  expect(listens.length).toBeGreaterThan(0);
  return listens.map(([, value]) => {
    expect(value).toMatch(/^0\.0\.0\.0:\d+$/u);
    return Number(value?.split(":")[1]);
  });
}

/** Lines NAME=value. */
function variables(text: string): Record<string, string> {
  const lines = text.split("\n").filter((line) => /^\w+=/u.test(line));
  return Object.fromEntries(lines.map((line) => line.split(/=(.*)/su).slice(0, 2) as [string, string]));
}

interface Started {
  readonly startupProbe: { readonly periodSeconds: number; readonly failureThreshold: number };
}

it("keeps the files that are filled in with secrets out of images and out of version control", () => {
  const copied = [...read("docs/deploy.md").matchAll(/cp (\S+\.env)\.example \1/gu)].map(([, file = ""]) => file);
  expect(copied.length).toBeGreaterThan(1);
  expect(read(".dockerignore").split("\n")).toContain("**/*.env");
  const ignored = copied.map((file) => file.replace(/^deploy\/(?:.*\/)?/u, "deploy/**/"));
  expect(read(".gitignore").split("\n")).toEqual(expect.arrayContaining(ignored));
});

describe("Docker Compose", () => {
  interface Service {
    readonly command: readonly string[];
    readonly environment: Readonly<Record<string, string>>;
    readonly healthcheck: {
      readonly test: readonly string[];
      readonly retries: number;
      readonly start_period?: string;
    };
    readonly image?: string;
    readonly networks?: readonly string[] | object;
    readonly profiles?: readonly string[];
    readonly volumes?: readonly string[];
  }
  const known = variables(read("deploy/compose.env.example"));
  const text = read("deploy/compose.yaml");
  const filled = text.replaceAll(/\$\{(\w+)(?::[?-])?\}/gu, (_, name: string) => {
    if (!(name in known)) {
      throw new Error(`compose.env.example has no ${name}`);
    }
    return ["DOMAIN", "ADMIN_EMAIL", "CLUSTER_URI"].includes(name)
      ? (known[name] ?? "")
      : "0123456789abcdef0123456789abcdef";
  });
  const { services } = parse(filled, { merge: true }) as { readonly services: Readonly<Record<string, Service>> };
  const ports = new Map<string, Listens>();

  it.each(["ingestion", "analytics", "web", "maintenance", "object-cache"])(
    "starts %s, and asks where it listens",
    (name) => {
      const service = services[name];
      const listens = configured(service?.command ?? [], service?.environment ?? {});
      ports.set(name, listens);
      const [, asked] = /127\.0\.0\.1:(\d+)\/ready/u.exec(service?.healthcheck.test.join(" ") ?? "") ?? [];
      expect(listens).toContain(Number(asked));
    },
  );

  it("waits for a migration as long as Kubernetes does", () => {
    const [deployment] = parseAllDocuments(read("deploy/kubernetes/ingestion.yaml")).map(
      (document) => document.toJS() as { spec: { template: { spec: { containers: readonly [Started] } } } },
    );
    assert(deployment !== undefined);
    const { startupProbe } = deployment.spec.template.spec.containers[0];
    expect(services["ingestion"]?.healthcheck.start_period).toBe(
      `${(startupProbe.periodSeconds * startupProbe.failureThreshold) / 3600}h`,
    );
    expect(services["analytics"]?.healthcheck).toMatchObject({ retries: 20, interval: "5s" });
    expect(services["analytics"]?.healthcheck.start_period).toBeUndefined();
  });

  it("starts clusters where compose.env.example says, for analytics servers alone", () => {
    const addresses = [...read("deploy/compose.env.example").matchAll(/sc:\/\/([a-z]+):(\d+)/gu)];
    expect(addresses.map(([, name]) => name)).toEqual(["sail", "spark"]);
    for (const [uri, name = "", port = ""] of addresses) {
      expect(parseClusterUri(uri).target).toBe(`${name}:${port}`);
      const service = services[name];
      expect(service?.command.join(" ")).toMatch(new RegExp(`port[= ]${port}(?: |$)`, "u"));
      expect(service?.healthcheck.test.join(" ")).toContain(port);
      expect(service).toMatchObject({ profiles: [name], networks: ["cluster"], volumes: ["lake:/data:ro", "/tmp"] });
    }
    const within = Object.entries(services).filter(([, { networks }]) =>
      JSON.stringify(networks ?? {}).includes('"cluster"'),
    );
    expect(within.map(([name]) => name)).toEqual(["analytics", "sail", "spark"]);
    expect([services["sail"]?.image, services["spark"]?.image]).toEqual([
      `sail:${sailVersion}`,
      `apache/spark:${sparkVersion}`,
    ]);
    expect(read("deploy/sail.Dockerfile")).toContain(`pysail==${sailVersion}\n`);
  });

  it("has a proxy and an identity provider that reach them", () => {
    const upstreams = [...read("deploy/Caddyfile").matchAll(/(?:h2c:\/\/| )([a-z]+):(\d+)/gu)];
    expect(upstreams.length).toBeGreaterThan(4);
    for (const [, name = "", port] of upstreams) {
      const own = name === "dex" ? [Number(/0\.0\.0\.0:(\d+)/u.exec(read("deploy/dex.yaml"))?.[1])] : ports.get(name);
      expect({ name, ports: own }).toEqual({ name, ports: expect.arrayContaining([Number(port)]) });
    }
    const dex = parse(read("deploy/dex.yaml").replaceAll(/\{\{ \.Env\.(\w+) \}\}/gu, "$1")) as {
      readonly issuer: string;
      readonly staticClients: readonly { readonly id: string; readonly secret?: string; readonly public?: true }[];
    };
    const issuer = dex.issuer.replace("DOMAIN", known["DOMAIN"] ?? "");
    const { issuers } = JSON.parse(services["web"]?.environment["SVC_OIDC_CONFIG"] ?? "") as {
      readonly issuers: unknown;
    };
    expect(issuers).toEqual(dex.staticClients.map(({ id }) => ({ issuer, audience: id })));
    // The web server, whose client the first is, has a secret; the command line can keep none.
    expect(dex.staticClients.map((client) => [typeof client.secret, client.public])).toEqual([
      ["string", undefined],
      ["undefined", true],
    ]);
  });
});

describe("Kubernetes", () => {
  interface Port {
    readonly name: string;
    readonly containerPort: number;
    readonly port: number;
    readonly targetPort: string;
  }
  interface Container {
    readonly args: readonly string[];
    readonly env: readonly { readonly name: string; readonly value: string }[];
    readonly ports: readonly Port[];
    readonly readinessProbe: Probe;
    readonly livenessProbe: Probe;
    readonly startupProbe: Probe;
    readonly lifecycle?: { readonly preStop: { readonly sleep: { readonly seconds: number } } };
  }
  interface Probe {
    readonly httpGet: { readonly path: string; readonly port: number };
    readonly tcpSocket?: { readonly port: number };
  }
  interface Resource {
    readonly kind: string;
    readonly metadata: { readonly name: string };
    readonly spec: {
      readonly template: {
        readonly metadata: { readonly labels: object };
        readonly spec: { readonly containers: readonly [Container]; readonly terminationGracePeriodSeconds: number };
      };
      readonly ports: readonly Port[];
      readonly rules: readonly {
        readonly http: { readonly paths: readonly { readonly path: string; readonly backend: Backend }[] };
      }[];
    };
  }
  interface GuardedPart extends Resource {
    readonly spec: Resource["spec"] & {
      readonly podSelector: { readonly matchLabels: object };
      readonly ingress: readonly { readonly from: readonly object[]; readonly ports?: readonly object[] }[];
    };
  }
  interface Backend {
    readonly service: { readonly name: string; readonly port: { readonly name: string } };
  }
  const directory = "deploy/kubernetes";
  const { resources, configMapGenerator } = parse(read(`${directory}/kustomization.yaml`)) as {
    readonly resources: readonly string[];
    readonly configMapGenerator: readonly { readonly literals: readonly string[] }[];
  };
  const shared = {
    ...variables(configMapGenerator[0]?.literals.join("\n") ?? ""),
    ...variables(read(`${directory}/secret.env.example`).replaceAll(/<[^>]*>/gu, "0123456789abcdef0123456789abcdef")),
  };
  const all = resources.flatMap((file) =>
    parseAllDocuments(read(`${directory}/${file}`)).map((document) => document.toJS() as Resource),
  );
  const named = (kind: string, name: string): Resource | undefined =>
    all.find((resource) => resource.kind === kind && resource.metadata.name === name);

  it.each(["ingestion", "analytics", "web", "maintenance"])("starts %s, and asks where it listens", (name) => {
    const [server] = named("Deployment", name)?.spec.template.spec.containers ?? [];
    const own = Object.fromEntries(server?.env.map((variable) => [variable.name, variable.value]) ?? []);
    const listens = configured(server?.args ?? [], { ...shared, ...own });
    expect(server?.ports.map(({ containerPort }) => containerPort)).toEqual(listens);
    for (const probe of [server?.readinessProbe, server?.livenessProbe, server?.startupProbe]) {
      expect(listens).toContain(probe?.httpGet.port);
    }
    const service = named("Service", name);
    for (const { targetPort } of service?.spec.ports ?? []) {
      expect(server?.ports.map((port) => port.name)).toContain(targetPort);
    }
  });

  it.each(["ingestion", "analytics", "web"])(
    "%s listens until nobody is sent to it, and then has time to drain",
    (name) => {
      const pod = named("Deployment", name)?.spec.template.spec;
      const sleepSeconds = pod?.containers[0].lifecycle?.preStop.sleep.seconds;
      expect(sleepSeconds).toBeGreaterThanOrEqual(5);
      const drainSeconds = options.SVC_SHUTDOWN_GRACE_PERIOD_SECONDS.default;
      expect(pod?.terminationGracePeriodSeconds).toBeGreaterThan((sleepSeconds ?? 0) + drainSeconds);
    },
  );

  it.each([".", "object-cache"])("%s has the image that docs/deploy.md builds, from a registry", (folder) => {
    const own = `${directory}/${folder}`;
    const { resources: files, images } = parse(read(`${own}/kustomization.yaml`)) as {
      readonly resources: readonly string[];
      readonly images?: readonly { readonly name: string; readonly newName: string; readonly newTag: string }[];
    };
    const [, built] = /docker build --tag <registry>(\/\S+) /u.exec(read("docs/deploy.md")) ?? [];
    expect(images).toEqual([{ name: "telemetry-service", newName: `registry.example.com${built}`, newTag: "latest" }]);
    const named = files.flatMap((file) => read(`${own}/${file}`).match(/(?<= image: )[^:\s]+/gu) ?? []);
    expect([...new Set(named)]).toEqual(images?.map(({ name }) => name));
  });

  it("starts the object cache with its own secrets, where analytics servers look for it", () => {
    const own = `${directory}/object-cache`;
    const kustomization = parse(read(`${own}/kustomization.yaml`)) as {
      readonly resources: readonly string[];
      readonly configMapGenerator: readonly { readonly literals: readonly string[] }[];
    };
    const [workload, service, policy] = kustomization.resources.flatMap((file) =>
      parseAllDocuments(read(`${own}/${file}`)).map((document) => document.toJS() as GuardedPart),
    );
    const [server] = workload?.spec.template.spec.containers ?? [];
    const listens = configured(server?.args ?? [], {
      ...variables(kustomization.configMapGenerator[0]?.literals.join("\n") ?? ""),
      ...variables(read(`${own}/secret.env.example`).replaceAll(/<[^>]*>/gu, "0123456789abcdef0123456789abcdef")),
      ...Object.fromEntries(server?.env.map((variable) => [variable.name, variable.value]) ?? []),
    });
    expect(server?.ports.map(({ containerPort }) => containerPort)).toEqual(listens);
    for (const probe of [server?.readinessProbe, server?.livenessProbe, server?.startupProbe]) {
      expect(listens).toContain(probe?.httpGet.port);
    }
    expect([service?.metadata.name, service?.spec.ports.map(({ targetPort }) => targetPort)]).toEqual([
      "object-cache",
      server?.ports.map(({ name }) => name),
    ]);
    expect(policy?.spec.podSelector).toEqual({ matchLabels: workload?.spec.template.metadata.labels });
    expect(policy?.spec.ingress.map(({ ports }) => ports)).toEqual([[{ port: "http" }], [{ port: "http" }]]);
    expect(policy?.spec.ingress[0]?.from).toEqual([{ podSelector: { matchLabels: { app: "analytics" } } }]);
  });

  it.each([
    ["sail", `sail:${sailVersion}`],
    ["spark", `apache/spark:${sparkVersion}`],
  ])("starts %s where analytics servers look for it, and lets nobody else in", (name, image) => {
    const own = `${directory}/${name}`;
    const text = read(`${own}/${name}.yaml`);
    const parts = parseAllDocuments(text).map((document) => document.toJS() as GuardedPart);
    const part = (kind: string): GuardedPart | undefined =>
      parts.find((one) => one.kind === kind && one.metadata.name === name);
    const kustomization = read(`${own}/kustomization.yaml`);
    expect((parse(kustomization) as { readonly resources: readonly string[] }).resources).toEqual([`${name}.yaml`]);
    const { target } = parseClusterUri(/SVC_QUERY_CLUSTER_URI=(\S+)/u.exec(kustomization)?.[1] ?? "");
    const [server] = part("Deployment")?.spec.template.spec.containers ?? [];
    const [offered] = part("Service")?.spec.ports ?? [];
    expect(target).toBe(`${name}:${offered?.port}`);
    const [listens] = server?.ports ?? [];
    expect(listens).toEqual({ name: offered?.targetPort, containerPort: offered?.port });
    expect(server?.args.join(" ")).toMatch(new RegExp(`port[= ]${listens?.containerPort}(?: |$)`, "u"));
    for (const probe of [server?.readinessProbe, server?.livenessProbe, server?.startupProbe]) {
      expect(probe?.tcpSocket?.port).toBe(listens?.containerPort);
    }
    // Its own pods may reach it besides.
    const [analytics] = part("NetworkPolicy")?.spec.ingress ?? [];
    expect(analytics).toEqual({
      from: [{ podSelector: { matchLabels: { app: "analytics" } } }],
      ports: [{ port: listens?.name }],
    });
    expect(named("Deployment", "analytics")?.spec.template.metadata.labels).toEqual({ app: "analytics" });
    // Server and workers alike: the tested version, the lake to read, the group that may.
    expect(text.match(/image\W.*?(?:sail|apache\/spark):[\d.]+/giu)?.every((line) => line.endsWith(image))).toBe(true);
    expect(text.match(/claimName"?: "?lake/gu)).toHaveLength(2);
    expect(text.match(/"?mountPath"?: "?\/data"?, "?readOnly"?: true/gu)).toHaveLength(2);
    const [, group = ""] = /--gid (\d+)/u.exec(read("Dockerfile")) ?? [];
    expect([...text.matchAll(/runAsGroup"?: (\d+)/gu)].map(([, id]) => id)).toEqual([group, group]);
  });

  it("lets in what a service has", () => {
    const backends = all
      .filter(({ kind }) => kind === "Ingress")
      .flatMap(({ spec }) => spec.rules.flatMap(({ http }) => http.paths.map(({ backend }) => backend.service)));
    expect(backends.length).toBeGreaterThan(3);
    for (const { name, port } of backends) {
      expect(named("Service", name)?.spec.ports.map((offered) => offered.name)).toContain(port.name);
    }
  });

  it("lets every path of OTLP/HTTP in, and nothing else of the ingestion server", () => {
    const prefixes = named("Ingress", "otlp-http")?.spec.rules.flatMap(({ http }) =>
      http.paths.map(({ path }) => path),
    );
    const led = (path: string): string | undefined => prefixes?.find((prefix) => path.startsWith(prefix));
    expect(httpRoutes.filter(([path]) => led(path) === undefined)).toEqual([]);
    expect(["/metrics", "/health", "/ready"].filter((path) => led(path) !== undefined)).toEqual([]);
  });
});

describe("systemd", () => {
  const unit = read("deploy/systemd/telemetry@.service");

  it.each(["all", "ingestion", "analytics", "web", "maintenance"])("starts the role %s", (role) => {
    const [, command = ""] = /^ExecStart=\S+ --enable-source-maps (.*)$/mu.exec(unit) ?? [];
    const env = { SVC_INGESTION_LISTEN: "0.0.0.0:9000" };
    expect(configured(command.replace("%i", role).split(" "), env)).toEqual([9000]);
  });

  it("lets queries spill to a disk: /tmp is memory where systemd says so", () => {
    expect(unit.split("\n")).toEqual(expect.arrayContaining(["Environment=TMPDIR=/var/tmp", "PrivateTmp=true"]));
  });
});

it("systemd starts the object cache", () => {
  const unit = read("deploy/systemd/telemetry-object-cache.service");
  const [, command = ""] = /^ExecStart=\S+ --enable-source-maps (.*)$/mu.exec(unit) ?? [];
  expect(configured(command.split(" "), { SVC_OBJECT_CACHE_LISTEN: "0.0.0.0:8080" })).toEqual([8080]);
});

describe("docs/deploy.md", () => {
  it("names the settings of a session that PgBouncer does not know", () => {
    // As its manual has it, with `application_name` and `client_encoding`.
    const known = new Set(["DateStyle", "TimeZone", "standard_conforming_strings"]);
    const ours = [...Object.keys({ ...conventions, ...keepAlive }), "statement_timeout"];
    const [, named = ""] = /^ignore_startup_parameters = (.*)$/mu.exec(read("docs/deploy.md")) ?? [];
    expect(named.split(", ").toSorted()).toEqual(ours.filter((setting) => !known.has(setting)).toSorted());
  });

  const text = read("docs/deploy.md");

  it("names options and files that exist", () => {
    const named = [...text.matchAll(/\bSVC_[A-Z_]+\b/gu)].map(([name]) => name);
    expect(named.filter((name) => !(name in options))).toEqual([]);
    const links = [...text.matchAll(/\]\((\.\.\/[^)#]+)/gu)].map(([, link = ""]) => link.slice(3));
    expect(links.length).toBeGreaterThan(3);
    expect(links.filter((file) => !existsSync(file))).toEqual([]);
  });
});

describe("Prometheus", () => {
  interface Rule {
    readonly alert: string;
    readonly expr: string;
    readonly annotations: { readonly summary: string };
  }
  const { groups } = parse(read("deploy/prometheus/alerts.yaml")) as {
    readonly groups: readonly { readonly rules: readonly Rule[] }[];
  };
  const rules = groups.flatMap((group) => group.rules);
  const sources = readdirSync("src", { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".ts"))
    .map((file) => read(`src/${file}`))
    .join("\n");

  it.each(rules.map((rule) => [rule.alert, rule] as const))("%s is over metrics and options that exist", (_, rule) => {
    const metrics = [...rule.expr.matchAll(/\b[a-z]+(?:_[a-z]+)+\b(?!\()/gu)].map(([name]) => name);
    const isMade = (name: string): boolean => sources.includes(`"${name}"`);
    expect(metrics.filter((name) => !isMade(name) && !isMade(name.replace(/_(?:sum|count)$/u, "")))).toEqual([]);
    const named = [...rule.annotations.summary.matchAll(/\bSVC_[A-Z_]+\b/gu)].map(([name]) => name);
    expect(named.filter((name) => !(name in options))).toEqual([]);
  });

  it("is told by docs/deploy.md where servers are", () => {
    const [, text = ""] = /^```yaml\n(rule_files[\s\S]*?)^```$/mu.exec(read("docs/deploy.md")) ?? [];
    const { scrape_configs: jobs } = parse(text) as {
      readonly scrape_configs: readonly {
        readonly job_name: string;
        readonly static_configs: readonly { readonly targets: readonly string[] }[];
      }[];
    };
    const { services } = parse(read("deploy/compose.yaml"), { merge: true }) as {
      readonly services: Readonly<Record<string, { readonly healthcheck: { readonly test: readonly string[] } }>>;
    };
    const targets = jobs[0]?.static_configs[0]?.targets ?? [];
    expect(rules.some(({ expr }) => expr.includes(`job="${jobs[0]?.job_name}"`))).toBe(true);
    expect(targets).toHaveLength(5);
    for (const target of targets) {
      const [name = "", port = ""] = target.split(":");
      expect(services[name]?.healthcheck.test.join(" ")).toContain(`127.0.0.1:${port}/ready`);
    }
  });
});

describe("the Dockerfile", () => {
  it("copies what there is, and starts a program", () => {
    const lines = read("Dockerfile").split("\n");
    const copies = lines.filter((line) => /^COPY (?!--from=)/u.test(line)).map((line) => line.split(" ").slice(1, -1));
    expect(copies.length).toBeGreaterThan(3);
    const built = lines.map((line) => /^COPY --from=build \/app\/(\S+) /u.exec(line)?.[1] ?? ".");
    expect([...copies.flat(), ...built].filter((file) => !existsSync(file))).toEqual([]);
    const [, command = ""] = /^CMD \["(.*)"\]$/mu.exec(lines.join("\n")) ?? [];
    expect(roles).toHaveProperty([command]);
  });

  it("is followed by programs that say what they do", () => {
    const { bin } = JSON.parse(read("package.json")) as { readonly bin: Readonly<Record<string, string>> };
    const servers = Object.values(bin).filter((file) => !file.endsWith("telemetry.js"));
    expect(servers.map((file) => file.replace("./", "")).toSorted()).toEqual(Object.keys(roles).toSorted());
  });
});
