import { describe, expect, expectTypeOf, test } from "vitest";

import type { ListenAddress } from "../../src/runtime/config/kinds.js";
import { options } from "../../src/runtime/config/options.js";
import { ConfigError } from "../../src/runtime/config/parse-options.js";
import { type Config, parseCommandLine, parseConfig, rowsFor } from "../../src/runtime/config/parse.js";
import { flagOf, type OptionRow, prefixRoles, propertyOf, roleForm, roles } from "../../src/runtime/config/table.js";

const program = { name: "test-srv", version: "1.2.3", summary: "a server" };

function problemsOf(run: () => unknown): readonly string[] {
  try {
    run();
  } catch (error) {
    if (error instanceof ConfigError) {
      return error.problems;
    }
    throw error;
  }
  throw new Error("no problem was reported");
}

describe("types", () => {
  test("the configuration of a role is typed by the table and holds only the role's rows", () => {
    type Ingestion = Config<"ingestion">;
    expectTypeOf<Ingestion["ingestionListen"]>().toEqualTypeOf<ListenAddress>();
    expectTypeOf<Ingestion["sqlConnectionString"]>().toEqualTypeOf<string | null>();
    expectTypeOf<Ingestion["lakeCompression"]>().toEqualTypeOf<"lz4" | "none">();
    expectTypeOf<Ingestion["disableAuth"]>().toEqualTypeOf<boolean>();
    expectTypeOf<Ingestion["otlpMaxBodyBytes"]>().toEqualTypeOf<number>();
    expectTypeOf<Ingestion>().not.toHaveProperty("querySpareEngines");
    expectTypeOf<Config<"monolith">["querySpareEngines"]>().toEqualTypeOf<number>();
    expectTypeOf<Config<"monolith">["byRole"]["ingestion"]>().toEqualTypeOf<Ingestion>();
    expectTypeOf<Config<"monolith">["roles"]>().toEqualTypeOf<
      "all" | readonly ("ingestion" | "analytics" | "maintenance" | "web")[]
    >();
    const config = parseConfig("ingestion", [], {});
    expect(config).not.toHaveProperty("querySpareEngines");
  });
});

describe("SVC_REFUSE_UNSTAMPED", () => {
  test("excludes SVC_DISABLE_AUTH, on every server that ingests", () => {
    const env = { SVC_REFUSE_UNSTAMPED: "true", SVC_INGESTION_DISABLE_AUTH: "true" };
    for (const role of ["ingestion", "monolith"] as const) {
      expect(problemsOf(() => parseConfig(role, [], env))).toEqual([
        expect.stringMatching(/^SVC_REFUSE_UNSTAMPED and SVC_DISABLE_AUTH exclude each other: /),
      ]);
      expect(() => parseConfig(role, [], { SVC_REFUSE_UNSTAMPED: "true" })).not.toThrow();
    }
  });
});

describe("the object cache", () => {
  const prefixes = (text: string): unknown =>
    parseConfig("object-cache", [], { SVC_OBJECT_CACHE_PREFIX: text }).objectCachePrefix;

  test("hands out directories that are named without a slash at their ends", () => {
    expect(prefixes("log_entries, spans/audience=a/")).toEqual(["log_entries", "spans/audience=a"]);
    expect(prefixes("")).toBeNull();
  });

  test.each(["/", "a,", "../x", "a/../b", "a//b", "/a", ".probe", "a b", "a*"])("hands out nothing for %s", (text) => {
    expect(() => prefixes(text)).toThrow("SVC_OBJECT_CACHE_PREFIX takes directories of the object store");
  });

  test("is named to an analytics server together with a key, which no message repeats", () => {
    const named = { SVC_OBJECT_CACHE_URI: "http://cache:8080", SVC_OBJECT_CACHE_API_KEY: "hunter-2-hunter-2" };
    expect(parseConfig("analytics", [], named)).toMatchObject({ objectCacheUri: "http://cache:8080" });
    for (const name of Object.keys(named)) {
      expect(() => parseConfig("analytics", [], { ...named, [name]: "" })).toThrow("only together");
    }
    expect(() => parseConfig("analytics", [], { ...named, SVC_OBJECT_CACHE_API_KEY: "hunter 2" })).toThrow(
      /^SVC_OBJECT_CACHE_API_KEY takes an API key$/mu,
    );
  });
});

describe("SVC_BOOTSTRAP_ADMIN", () => {
  test("takes user:<email> and nothing else", () => {
    const read = (text: string) => parseConfig("ingestion", [], { SVC_BOOTSTRAP_ADMIN: text });
    expect(read("user:ann@example.com").bootstrapAdmin).toBe("user:ann@example.com");
    for (const text of ["*", "ann@example.com", "user:ann", "user:", "group:a", "user:a@b user:c@d"]) {
      expect(problemsOf(() => read(text))).toEqual([
        `SVC_BOOTSTRAP_ADMIN takes user:<email>; got ${JSON.stringify(text)}`,
      ]);
    }
  });
});

describe("defaults", () => {
  test("every role starts without any option", () => {
    for (const role of roles) {
      expect(() => parseConfig(role, [], {})).not.toThrow();
    }
  });

  test("ingestion has its defaults", () => {
    expect(parseConfig("ingestion", [], {})).toMatchObject({
      dataDir: "./data",
      sqlConnectionString: null,
      objectStoreUri: null,
      ingestionListen: { host: "127.0.0.1", port: 9000 },
      otlpHttpListen: { host: "127.0.0.1", port: 4318 },
      otlpGrpcListen: { host: "127.0.0.1", port: 4317 },
      ingestionCorsOrigins: null,
      shutdownGracePeriodSeconds: 25,
      otlpMaxBodyBytes: 20 * 1024 * 1024,
      otlpMaxInflatedBytes: 64 * 1024 * 1024,
      defaultAudience: "public",
      apiKeyCacheSize: 10_000,
      authCacheTtlSeconds: 60,
      apiKeyUnknownCacheTtlSeconds: 10,
      apiKeyUnknownCacheSize: 10_000,
      disableAuth: false,
    });
  });

  test("the monolith plays all roles and reads the rows of each", () => {
    const config = parseConfig("monolith", [], {});
    expect(config.roles).toBe("all");
    expect(config.analyticsHealthListen).toEqual({ host: "127.0.0.1", port: 50_052 });
    expect(config.webListen.port).toBe(3000);
  });

  test("every default can be given as text and means the same", () => {
    for (const [name, option] of Object.entries(options)) {
      if (option.default === null) {
        continue;
      }
      const written = (option.kind.format as (value: unknown) => string)(option.default);
      expect({ name, parsed: option.kind.parse(written) }).toEqual({
        name,
        parsed: { ok: true, value: option.default },
      });
    }
  });
});

describe("sources", () => {
  test("a flag wins over its variable, which wins over the default", () => {
    const env = { SVC_INGESTION_LISTEN: "0.0.0.0:1" };
    expect(parseConfig("ingestion", [], env).ingestionListen.port).toBe(1);
    expect(parseConfig("ingestion", ["--ingestion-listen", "a:2"], env).ingestionListen.port).toBe(2);
    expect(parseConfig("ingestion", ["--ingestion-listen=a:3"], env).ingestionListen.port).toBe(3);
  });

  test("a switch is true when bare and takes =true and =false", () => {
    expect(parseConfig("ingestion", ["--disable-auth"], {}).disableAuth).toBe(true);
    expect(parseConfig("ingestion", ["--disable-auth=true"], {}).disableAuth).toBe(true);
    expect(parseConfig("ingestion", ["--disable-auth=false"], { SVC_DISABLE_AUTH: "true" }).disableAuth).toBe(false);
  });

  test("an empty variable is unset, except where the empty text is a value", () => {
    expect(parseConfig("ingestion", [], { SVC_INGESTION_LISTEN: "" }).ingestionListen.port).toBe(9000);
    expect(parseConfig("analytics", [], { SVC_UNSTAMPED_AUDIENCE: "" }).unstampedAudience).toBe("");
    expect(parseConfig("analytics", [], {}).unstampedAudience).toBe("public");
    expect(problemsOf(() => parseConfig("ingestion", ["--data-dir="], {}))).toHaveLength(1);
  });

  test("the database may be at several hosts, each with its port, as libpq writes them", () => {
    const at = (hosts: string) => `postgres://u:p,w@${hosts}/telemetry?target_session_attrs=read-write`;
    for (const hosts of ["db-a", "db-a,db-b", "db-a:5432,db-b:5433", "127.0.0.1:1,[::1]:2,db-c"]) {
      const given = at(hosts);
      expect(parseConfig("ingestion", [], { SVC_SQL_CONNECTION_STRING: given }).sqlConnectionString).toBe(given);
    }
    for (const hosts of ["db-a:x,db-b", "db-a:5432,db-b:5433, db-c"]) {
      expect(problemsOf(() => parseConfig("ingestion", [], { SVC_SQL_CONNECTION_STRING: at(hosts) }))).toHaveLength(1);
    }
  });

  test("on the monolith a role prefix overrides the plain variable for that role only", () => {
    const config = parseConfig("monolith", [], {
      SVC_API_KEY_CACHE_SIZE: "5",
      SVC_INGESTION_API_KEY_CACHE_SIZE: "7",
    });
    expect(config.byRole.ingestion.apiKeyCacheSize).toBe(7);
    expect(config.byRole.analytics.apiKeyCacheSize).toBe(5);
  });

  test("every option that ingestion and analytics both read has a form for each, as variable and as flag", () => {
    const shared = Object.entries<OptionRow>(options).filter(
      ([, option]) => option.roles.includes("ingestion") && option.roles.includes("analytics"),
    );
    const withoutForms = shared.filter(([name, option]) => roleForm(name, option, "ingestion") === null);
    expect(withoutForms.map(([name]) => name)).toEqual([
      "SVC_SHUTDOWN_GRACE_PERIOD_SECONDS",
      "SVC_AUTH_CACHE_TTL_SECONDS",
      "SVC_TELEMETRY_URL",
      "SVC_INGESTION_API_KEY",
      "SVC_TELEMETRY_INTERVAL_SECONDS",
    ]);
    const config = parseConfig("monolith", ["--ingestion-sql-max-connections=7", "--sql-max-connections=5"], {
      SVC_ANALYTICS_SQL_CONNECTION_STRING: "postgres://reader@h/db",
      SVC_INGESTION_LOG_LEVEL: "debug",
    });
    expect(config.byRole.ingestion).toMatchObject({
      sqlMaxConnections: 7,
      logLevel: "debug",
      sqlConnectionString: null,
    });
    expect(config.byRole.analytics).toMatchObject({
      sqlMaxConnections: 5,
      logLevel: "info",
      sqlConnectionString: "postgres://reader@h/db",
    });
    expect(config).toMatchObject({ sqlMaxConnections: 5, logLevel: "info" });
  });

  test("the lifetime of cached keys and grants is the same for all roles", () => {
    const env = { SVC_INGESTION_AUTH_CACHE_TTL_SECONDS: "7" };
    expect(parseConfig("monolith", [], env).byRole.ingestion.authCacheTtlSeconds).toBe(60);
    const line = parseCommandLine("monolith", program, [], env);
    expect(line.kind === "run" && line.warnings[0]).toContain("is not a known variable");
  });

  test("a server of one role reads its own prefix, and says that it does not read another's", () => {
    const env = { SVC_INGESTION_API_KEY_CACHE_SIZE: "7", SVC_API_KEY_CACHE_SIZE: "5" };
    const line = parseCommandLine("ingestion", program, [], env);
    expect(line).toMatchObject({ config: { apiKeyCacheSize: 7 }, warnings: [] });
    expect(parseConfig("ingestion", ["--ingestion-api-key-cache-size=9"], env).apiKeyCacheSize).toBe(9);
    expect(parseCommandLine("analytics", program, [], env)).toMatchObject({
      config: { apiKeyCacheSize: 5 },
      warnings: ["SVC_INGESTION_API_KEY_CACHE_SIZE is set but not read: only the ingestion role reads it"],
    });
    expect(problemsOf(() => parseConfig("analytics", ["--ingestion-api-key-cache-size=9"], {}))).toHaveLength(1);
  });
});

describe("values", () => {
  test.each([
    ["[::1]:9000", { host: "::1", port: 9000 }],
    ["localhost:0", { host: "localhost", port: 0 }],
  ])("a listen address reads %s", (given, expected) => {
    expect(parseConfig("ingestion", ["--ingestion-listen", given], {}).ingestionListen).toEqual(expected);
  });

  test.each(["9000", "::1:9000", "host:", "host:65536", "host:1 ", "[::1]9000"])(
    "a listen address refuses %s",
    (given) => {
      expect(problemsOf(() => parseConfig("ingestion", ["--ingestion-listen", given], {}))[0]).toContain(
        "--ingestion-listen takes host:port",
      );
    },
  );

  test.each(["/", "/telemetry", "/telemetry/", "/a/b-1.2_~/c..d"])("a base path reads %s", (given) => {
    expect(parseConfig("web", [], { SVC_BASE_PATH: given }).basePath).toBe(given);
  });

  test.each(["x", "//example.com", "/a//b", "/a/../b", "/./a", "/a/..", "/a b", "/a?b", "/a%2fb", "/\\a", "/ä"])(
    "a base path refuses %s, for which no browser asks",
    (given) => {
      expect(problemsOf(() => parseConfig("web", [], { SVC_BASE_PATH: given }))[0]).toContain(
        "SVC_BASE_PATH takes a path that starts with /",
      );
    },
  );

  test("the second OTLP/HTTP address is off when it is empty, as a variable and as a flag", () => {
    expect(parseConfig("ingestion", [], { SVC_OTLP_HTTP_LISTEN: "" }).otlpHttpListen).toBeNull();
    expect(parseConfig("ingestion", [], { SVC_OTLP_GRPC_LISTEN: "" }).otlpGrpcListen).toBeNull();
    expect(parseConfig("monolith", ["--otlp-http-listen="], {}).byRole.ingestion.otlpHttpListen).toBeNull();
    expect(parseConfig("ingestion", ["--otlp-http-listen=[::1]:0"], {}).otlpHttpListen).toEqual({
      host: "::1",
      port: 0,
    });
    expect(problemsOf(() => parseConfig("ingestion", ["--otlp-http-listen=off"], {}))[0]).toContain(
      "or the empty string for none",
    );
  });

  test.each([
    ["https://app.example.com", ["https://app.example.com"]],
    ["http://localhost:5173, capacitor://localhost", ["http://localhost:5173", "capacitor://localhost"]],
  ])("origins take %s", (given, expected) => {
    expect(parseConfig("ingestion", [], { SVC_INGESTION_CORS_ORIGINS: given }).ingestionCorsOrigins).toEqual(expected);
  });

  const originProblem = (given: string): string | undefined =>
    problemsOf(() => parseConfig("ingestion", ["--ingestion-cors-origins", given], {}))[0];

  test.each([
    "*",
    "https://*.example.com",
    "null",
    "app.example.com",
    "https://a.example.com,",
    "https://u@a.example.com",
  ])("origins refuse %s", (given) => {
    expect(originProblem(given)).toContain("--ingestion-cors-origins takes origins (https://app.example.com)");
  });

  test.each([
    ["https://App.example.com/", "https://app.example.com"],
    ["https://a.example.com:443", "https://a.example.com"],
    ["capacitor://localhost/x", "capacitor://localhost"],
  ])("origins refuse %s and say what browsers write", (given, meant) => {
    expect(originProblem(given)).toContain(`browsers write ${given} as ${meant}`);
  });

  test.each([
    ["4096", 4096],
    ["512KiB", 524_288],
    ["1 MiB", 1_048_576],
    ["1gib", 1_073_741_824],
  ])("bytes read %s", (given, expected) => {
    expect(parseConfig("ingestion", [], { SVC_OTLP_MAX_BODY_BYTES: given }).otlpMaxBodyBytes).toBe(expected);
  });

  test.each(["-1", "1.5MiB", "2GiB", "0", "1MB", "x"])("bytes refuse %s", (given) => {
    expect(problemsOf(() => parseConfig("ingestion", [], { SVC_OTLP_MAX_BODY_BYTES: given }))).toHaveLength(1);
  });

  test("roles read a list in any order, and all", () => {
    expect(parseConfig("monolith", ["--roles", "web, ingestion"], {}).roles).toEqual(["ingestion", "web"]);
    expect(parseConfig("monolith", ["--roles", "all"], {}).roles).toBe("all");
    // Each was named, so none may be left out.
    expect(parseConfig("monolith", ["--roles", "ingestion,analytics,maintenance,web"], {}).roles).toHaveLength(4);
    expect(problemsOf(() => parseConfig("monolith", ["--roles", "ingestion,cache"], {}))).toHaveLength(1);
  });

  test("the OIDC configuration fills its defaults in and refuses other shapes", () => {
    const given = '{"issuers":[{"issuer":"https://id.example","audience":"client"}],"token_cache_size":5}';
    expect(parseConfig("analytics", [], { SVC_OIDC_CONFIG: given }).oidcConfig).toEqual({
      issuers: [{ issuer: "https://id.example", audience: "client", allowHttp: false, caFile: null }],
      jwksRefreshIntervalMs: 3_600_000,
      tokenCacheSize: 5,
      tokenCacheTtlMs: 300_000,
    });
    for (const bad of [
      "{",
      "[]",
      "{}",
      '{"issuers":[]}',
      '{"issuers":[{"issuer":"x","audience":"c"}]}',
      '{"issuers":[{"issuer":"https://id.example"}]}',
      '{"issuers":[{"issuer":"https://id.example","audience":"c"}],"token_cache_ttl":5}',
    ]) {
      expect(problemsOf(() => parseConfig("analytics", [], { SVC_OIDC_CONFIG: bad }))[0]).toMatch(
        /^SVC_OIDC_CONFIG takes a JSON object/,
      );
    }
  });
});

describe("problems", () => {
  test("all are listed at once, each naming the option, what it takes and what it got", () => {
    const problems = problemsOf(() =>
      parseConfig("ingestion", ["--ingestion-acceptors", "none", "--lake-compression=zip"], {
        SVC_INGESTION_LISTEN: "nowhere",
      }),
    );
    expect(problems).toEqual([
      'SVC_INGESTION_LISTEN takes host:port, with an IPv6 address in brackets ([::1]:9000); port 0 picks a free one; got "nowhere"',
      '--ingestion-acceptors takes a whole number from 1 to 64; got "none"',
      '--lake-compression takes one of lz4, none; got "zip"',
    ]);
  });

  test("a secret is never repeated", () => {
    const secret = "hunter2-mysql://u:p@h/db";
    for (const run of [
      () => parseConfig("ingestion", [], { SVC_SQL_CONNECTION_STRING: secret }),
      () => parseConfig("ingestion", ["--sql-connection-string", secret], {}),
      () => parseConfig("ingestion", [`--sql-connection-strin=${secret}`], {}),
    ]) {
      const problems = problemsOf(run);
      expect(problems).toHaveLength(1);
      expect(problems[0]).not.toContain("hunter2");
    }
  });

  test("an unknown flag is refused with the nearest known one", () => {
    expect(problemsOf(() => parseConfig("ingestion", ["--ingestion-lisen", "a:1"], {}))[0]).toBe(
      "--ingestion-lisen is not a known flag; did you mean --ingestion-listen?",
    );
    expect(problemsOf(() => parseConfig("ingestion", ["--hlep"], {}))).toEqual([
      "--hlep is not a known flag; did you mean --help?",
    ]);
    expect(problemsOf(() => parseConfig("ingestion", ["--zzzzzzzzzzzz"], {}))).toEqual([
      "--zzzzzzzzzzzz is not a known flag; --help lists them",
    ]);
  });

  test("a flag of another role, a flag without its value and a stray argument are refused", () => {
    expect(problemsOf(() => parseConfig("ingestion", ["--query-workers=1"], {}))).toHaveLength(1);
    expect(problemsOf(() => parseConfig("ingestion", ["--data-dir", "--disable-auth"], {}))[0]).toBe(
      "--data-dir needs a value: a path",
    );
    expect(problemsOf(() => parseConfig("ingestion", ["stray"], {}))[0]).toContain('"stray"');
  });

  test("a problem that several roles of the monolith meet is listed once", () => {
    expect(problemsOf(() => parseConfig("monolith", [], { SVC_LOG_LEVEL: "loud" }))).toHaveLength(1);
  });

  test("half of a TLS pair is refused", () => {
    expect(problemsOf(() => parseConfig("analytics", ["--analytics-tls-cert-file", "c.pem"], {}))[0]).toContain(
      "SVC_ANALYTICS_TLS_KEY_FILE",
    );
    expect(problemsOf(() => parseConfig("ingestion", ["--otlp-grpc-tls-key-file", "k.pem"], {}))[0]).toContain(
      "SVC_OTLP_GRPC_TLS_CERT_FILE",
    );
  });
});

describe("command line", () => {
  test("--help names every option of the role, its default, and no other role's", () => {
    const line = parseCommandLine("ingestion", program, ["--help", "--nonsense"], {});
    const help = line.kind === "print" ? line.text : "";
    for (const name of Object.keys(rowsFor("ingestion"))) {
      expect(help).toContain(flagOf(name));
      expect(help).toContain(`[${name}]`);
    }
    expect(help).toContain("Default: 127.0.0.1:9000.");
    expect(help).toContain("Default: 20MiB.");
    expect(help.replaceAll(/\s+/gu, " ")).toContain("--ingestion-oidc-config [SVC_INGESTION_OIDC_CONFIG]");
    expect(help).not.toContain("--analytics-oidc-config");
    expect(help).not.toContain("--query-workers");
    expect(Math.max(...help.split("\n").map((helpLine) => helpLine.length))).toBeLessThanOrEqual(102);
  });

  test("--version prints name and version", () => {
    expect(parseCommandLine("web", program, ["--version"], {})).toEqual({
      kind: "print",
      text: "test-srv 1.2.3\n",
    });
  });

  test("variables that nobody reads are warned of, without their values", () => {
    const line = parseCommandLine("ingestion", program, [], {
      SVC_INGESTION_LISTN: "secret-value",
      SVC_API_KEYS: "[]",
      SVC_INGESTION_API_KEYS: "[]",
      SVC_QUERY_SPARE_ENGINES: "3",
      PATH: "/bin",
    });
    const warnings = line.kind === "run" ? line.warnings : [];
    expect(warnings).toHaveLength(3);
    expect(warnings[0]).toContain("did you mean SVC_INGESTION_LISTEN?");
    expect(warnings[1]).toMatch(/^SVC_API_KEYS is set but not read/);
    expect(warnings[2]).toMatch(/^SVC_INGESTION_API_KEYS is set but not read/);
    expect(warnings.join()).not.toContain("secret-value");
  });

  test("no two options share a flag, and no secret has a default", () => {
    const forms = Object.entries<OptionRow>(options).flatMap(([name, option]) =>
      prefixRoles.flatMap((role) => roleForm(name, option, role) ?? []),
    );
    const flags = [...Object.keys(options), ...forms].map(flagOf);
    expect(new Set(flags).size).toBe(flags.length);
    expect(propertyOf("SVC_WEB_CORS_ORIGIN")).toBe("webCorsOrigin");
    for (const option of Object.values<{ secret?: boolean; default: unknown }>(options)) {
      expect(option.secret === true && option.default !== null).toBe(false);
    }
  });
});
