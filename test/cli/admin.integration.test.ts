import { readFileSync } from "node:fs";
import { chmod, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { type CliFinished, runCommand } from "../helpers/cli/run-cli.js";
import { createTestDatabase, type TestDatabase } from "../helpers/postgres/postgres.js";
import { type Identities, startIdentities, startTestWeb, type TestWeb } from "../helpers/web/web-server.js";

let identities: Identities;
let database: TestDatabase;
let web: TestWeb;
let home: string;

beforeAll(async () => {
  home = await mkdtemp(path.join(tmpdir(), "cli-admin-"));
  identities = await startIdentities();
  database = await createTestDatabase();
  web = await startTestWeb({
    identities,
    database,
    admins: ["admin@example.com"],
    environment: { SVC_BASE_PATH: "/telemetry" },
  });
  await mkdir(path.join(home, ".telemetry"));
  await tokenFile("tokens.json", await tokenOf("admin@example.com"));
  await tokenFile("tokens-user.json", await tokenOf("user@example.com"));
  await writeConfig();
});
afterAll(async () => {
  await web?.stop();
  await identities?.stop();
  await rm(home, { recursive: true, force: true });
});

const configFile = (): string => path.join(home, ".telemetry", "config.json");
const writeConfig = (): Promise<void> => writeFile(configFile(), JSON.stringify({ profiles: { user: {} } }));

const tokenOf = async (email: string): Promise<string> => (await identities.cookie(email)).slice("id_token=".length);

/** As a client writes it after a login. */
async function tokenFile(name: string, idToken: string): Promise<string> {
  const file = path.join(home, ".telemetry", name);
  const content = {
    issuer: identities.provider.issuer,
    client_id: identities.provider.clientId,
    token: { access_token: "a", refresh_token: "r", id_token: idToken, expires_at: Date.now() / 1000 + 3600 },
  };
  await writeFile(file, JSON.stringify(content), { mode: 0o600 });
  return file;
}

const telemetry = (
  args: readonly string[],
  o: { readonly env?: Record<string, string>; readonly columns?: number } = {},
): Promise<CliFinished> =>
  runCommand(args, {
    ...o,
    env: { SVC_WEB_URL: web.url, ...o.env },
    homeDirectory: home,
    workingDirectory: home,
  });

const json = async (args: readonly string[], env?: Record<string, string>): Promise<unknown> => {
  const { code, stdout, stderr } = await telemetry([...args, "--json"], env && { env });
  expect([code, stderr.replace(/telemetry: the key is shown.*\n/u, "")]).toEqual([0, ""]);
  return JSON.parse(stdout) as unknown;
};

const user = { SVC_PROFILE: "user" };

describe("telemetry keys", () => {
  it("mints a key, lists it without its cleartext, and revokes it", async () => {
    await json(["grants", "add", "team-a", "mint", "user:admin@example.com"]);
    const minted = (await json(["keys", "mint", "ingestion", "--name", "build", "--audience", "team-a"])) as {
      key: string;
      key_id: string;
    };
    expect(minted).toMatchObject({ name: "build", audience: "team-a", claimed: false });
    expect(minted.key).toMatch(/^svk_/);
    const listed = await telemetry(["keys", "list", "ingestion"]);
    expect(listed.code).toBe(0);
    expect(listed.stdout).not.toContain("svk_");
    const [header = "", , first = ""] = listed.stdout.split("\n");
    expect(header.split("│").map((title) => title.trim())).toEqual([
      "key_id",
      "name",
      "audience",
      "created",
      "by",
      "last used",
      "revoked",
      "requests 24h",
      "bytes 24h",
      "records 24h",
    ]);
    expect(first.split("│").map((cell) => cell.trim())).toEqual([
      minted.key_id,
      "build",
      "team-a",
      expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/) as string,
      "admin@example.com",
      "",
      "",
      "0",
      "0",
      "0",
    ]);
    const revoked = await json(["keys", "revoke", "ingestion", minted.key_id]);
    expect(revoked).toEqual({ revoked_at: expect.any(String) as string });
    expect(await json(["keys", "revoke", "ingestion", minted.key_id])).toEqual(revoked);
    expect(await json(["keys", "list", "ingestion", "--live"])).toEqual([]);
    expect(await json(["keys", "list", "ingestion", "--limit", "5"])).toHaveLength(1);
    expect(await json(["keys", "list", "ingestion", "--offset=1"])).toEqual([]);
  });

  it("shows a minted key as fields, with a word that it is shown once", async () => {
    const { code, stdout, stderr } = await telemetry(["keys", "mint", "analytics", "--name", "dash"]);
    expect([code, stderr]).toEqual([0, "telemetry: the key is shown only once\n"]);
    expect(stdout).toMatch(/^key_id +[0-9a-f-]{36}$/m);
    expect(stdout).toMatch(/^key +svk_\w+$/m);
    expect((await telemetry(["keys", "list", "analytics"])).stdout).toContain(" │ dash ");
  });

  it("cuts names on a narrow terminal, never a key id, and escapes what could steer it", async () => {
    await json(["keys", "mint", "analytics", "--name", `wide ${"w".repeat(150)}`]);
    await json(["keys", "mint", "analytics", "--name", "red \u001b[31m"]);
    const narrow = await telemetry(["keys", "list", "analytics"], { columns: 60 });
    expect(narrow.stdout).toContain("…");
    expect(narrow.stdout).toMatch(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12} │/m);
    expect(narrow.stdout).not.toContain("\u001b");
    const piped = await telemetry(["keys", "list", "analytics"]);
    expect(piped.stdout).toContain("w".repeat(150));
    expect(piped.stdout).toContain("red \\x1b[31m");
  });

  it("exits with 1 and the server's words for a refusal", async () => {
    expect(await telemetry(["keys", "list", "ingestion"], { env: user })).toMatchObject({
      code: 1,
      stdout: "",
      stderr: expect.stringMatching(/^telemetry: .*\(403 FORBIDDEN\)\n$/) as string,
    });
    const missing = "00000000-0000-4000-8000-000000000000";
    expect((await telemetry(["keys", "revoke", "ingestion", missing])).stderr).toMatch(/\(404 NOT_FOUND\)\n$/);
    expect((await telemetry(["keys", "mint", "ingestion", "--name", "n".repeat(256)])).stderr).toMatch(
      /name.*\(400 BAD_REQUEST\)\n$/,
    );
  });
});

describe("telemetry grants", () => {
  it("adds, lists, shows one's own and removes", async () => {
    const grant = ["team-b", "read", "user:user@example.com"];
    expect(await json(["grants", "add", ...grant])).toMatchObject({
      audience: "team-b",
      kind: "read",
      member: "user:user@example.com",
      created_by: "admin@example.com",
    });
    const listed = await telemetry(["grants", "list", "--audience", "team-b", "--kind", "read"]);
    expect(listed.stdout.split("\n")[2]).toMatch(/^team-b +│ read │ user:user@example.com │ /);
    expect(await json(["grants", "mine"], user)).toMatchObject({
      email: "user@example.com",
      is_admin: false,
      read: expect.arrayContaining(["public", "team-b"]) as string[],
    });
    expect(await telemetry(["grants", "remove", ...grant])).toEqual({
      code: 0,
      stdout: "removed\n",
      stderr: "",
    });
    expect((await telemetry(["grants", "remove", ...grant])).code).toBe(1);
    expect(await json(["grants", "list", "--audience", "team-b"])).toEqual([]);
  });
});

describe("telemetry groups", () => {
  it("creates, fills, shows, empties and deletes, whatever characters the names have", async () => {
    const name = "on call & co? 50%";
    expect(await json(["groups", "create", name])).toMatchObject({ name });
    await json(["groups", "add", name, "user:a+b@example.com"]);
    expect(await json(["groups", "members", name])).toMatchObject([
      { member: "user:a+b@example.com", created_by: "admin@example.com" },
    ]);
    expect((await telemetry(["groups", "list"])).stdout).toContain(name);
    expect((await telemetry(["groups", "remove", name, "user:a+b@example.com"])).stdout).toBe("removed\n");
    expect(await json(["groups", "members", name])).toEqual([]);
    expect((await telemetry(["groups", "delete", name])).stdout).toBe("deleted\n");
    expect((await telemetry(["groups", "members", name])).code).toBe(1);
    expect((await telemetry(["groups", "delete", "admins"])).stderr).toContain("409 CONFLICT");
  });
});

describe("the documents", () => {
  it.each([
    ["README.md", "## Administer"],
    ["docs/administration.md", "## Command line"],
  ])("%s has commands that work one after the other", async (file, heading) => {
    const section =
      readFileSync(file, "utf8")
        .split(/^(?=## )/mu)
        .find((part) => part.startsWith(`${heading}\n`)) ?? "";
    const block = [...section.matchAll(/^```sh\n([^`]*)^```$/gmu)].find(([, text]) => text?.includes("grants add"));
    const lines = (block?.[1] ?? "").matchAll(/^npx -y pnpm@12 --silent telemetry (.*?)(?: +#.*)?$/gmu);
    const commands = [...lines]
      .map(([, line = ""]) => [...line.matchAll(/"([^"]*)"|(\S+)/gu)].map(([, quoted, plain]) => quoted ?? plain ?? ""))
      // One asks a person, the other an analytics server.
      .filter(([name]) => name !== "login" && name !== "denials");
    expect(commands.length).toBeGreaterThan(3);
    for (const command of commands) {
      expect({ command, ...(await telemetry(command)) }).toMatchObject({ command, code: 0 });
    }
    await telemetry(["groups", "delete", "team-a"]);
  });
});

describe("telemetry audit", () => {
  it("lists what was changed, newest first, with and without the word list", async () => {
    await json(["groups", "create", "audited"]);
    const { stdout } = await telemetry(["audit", "--limit", "1"]);
    const [header = "", , entry = "", rest] = stdout.split("\n");
    expect(header).toMatch(/^at +│ actor +│ action +│ target +│ details/);
    expect(entry).toMatch(/│ admin@example.com │ group\.\w+ +│ audited │ from=127\.0\.0\.1 issuer=http/);
    expect(rest).toBe("");
    expect(await json(["audit", "list", "--limit=1"])).toMatchObject([{ actor: "admin@example.com" }]);
    await json(["groups", "create", "audited-too"]);
    const of = async (...flags: string[]): Promise<unknown> => json(["audit", ...flags]);
    expect(await of("--target", "audited", "--action", "group.create", "--actor", "admin@example.com")).toMatchObject([
      { action: "group.create", target: "audited" },
    ]);
    expect(await of("--target", "audited", "--action", "group.delete")).toEqual([]);
    expect(await of("--target", "audited", "--actor", "somebody@example.com")).toEqual([]);
  });
});

describe("lists longer than one answer of the server", () => {
  beforeAll(async () => {
    const { sql } = database;
    const names = `'bulk ' || lpad(i::text, 4, '0')`;
    await sql.unsafe(`
      insert into analytics_api_keys (key_id, key_hash, name, created_at, created_by, revoked_at)
        select gen_random_uuid(), sha256(i::text::bytea), ${names}, '2020-01-01'::timestamptz + i * interval '1 s',
          'bulk', case when i % 2 = 0 then now() end
        from generate_series(1, 1203) i;
      insert into audience_grants (audience, kind, member, created_at, created_by)
        select 'bulk', 'read', 'user:u' || i || '@bulk', '2020-01-01', 'bulk' from generate_series(1, 1001) i;
      insert into groups (name, created_at, created_by)
        select ${names}, '2020-01-01', 'bulk' from generate_series(1, 1000) i;
      insert into group_members (group_name, member, created_by)
        select 'bulk 0001', 'user:u' || i || '@bulk', 'bulk' from generate_series(1, 501) i;
      insert into audit_log (actor, action, target)
        select 'bulk', 'key.mint', i::text from generate_series(1, 1203) i`);
  });
  const names = async (args: readonly string[]): Promise<string[]> =>
    ((await json(args)) as { name: string }[]).map(({ name }) => name);
  const bulk = (from: number, count: number): string[] =>
    Array.from({ length: count }, (_, i) => `bulk ${String(from - i).padStart(4, "0")}`);

  it("are listed whole with --all, each row once and in order", async () => {
    const listed = await names(["keys", "list", "analytics", "--all"]);
    expect(listed.slice(-1203)).toEqual(bulk(1203, 1203));
    const live = await names(["keys", "list", "analytics", "--all", "--live"]);
    expect(live.filter((name) => name.startsWith("bulk"))).toHaveLength(602);
    const { stdout } = await telemetry(["keys", "list", "analytics", "--all"]);
    expect(stdout.match(/│ bulk \d{4} +│/g)).toHaveLength(1203);
    for (const [args, least] of [
      [["grants", "list", "--all"], 1002],
      [["grants", "list", "--audience=bulk", "--all"], 1001],
      [["groups", "list", "--all"], 1001],
      [["groups", "members", "bulk 0001", "--all"], 501],
      [["audit", "--all"], 1203],
    ] as const) {
      const rows = (await json(args)) as unknown[];
      expect([args, rows.length >= least]).toEqual([args, true]);
      expect(new Set(rows.map((row) => JSON.stringify(row))).size).toBe(rows.length);
    }
  });

  it("are paged for as many rows as --limit says, from --offset on", async () => {
    const all = await names(["keys", "list", "analytics", "--all"]);
    for (const [limit, offset] of [
      [501, 0],
      [1000, 3],
      [1200, 100],
      [500, 20],
      [1, 1000],
      [100_000, 1],
    ] as const) {
      const listed = await names(["keys", "list", "analytics", `--limit=${limit}`, `--offset=${offset}`]);
      expect(listed).toEqual(all.slice(offset, offset + limit));
    }
    expect(await names(["keys", "list", "analytics"])).toEqual(all.slice(0, 100));
    expect(await names(["keys", "list", "analytics", "--offset=1150"])).toEqual(all.slice(1150, 1250));
  });
});

describe("the token file", () => {
  it("may hold the bare token, be named by a flag, or belong to a profile of the configuration", async () => {
    const bare = path.join(home, "bare");
    await writeFile(bare, `${await tokenOf("bare@example.com")}\n`, { mode: 0o600 });
    expect(await json(["grants", "mine", "--token-file", "bare"])).toMatchObject({
      email: "bare@example.com",
    });
    expect(await json(["grants", "mine", "--profile", "user"])).toMatchObject({
      email: "user@example.com",
    });
  });

  it("is not that of a profile which the configuration does not define", async () => {
    const refused = async (profile: string): Promise<string> => {
      const finished = await telemetry(["grants", "mine", "--profile", profile]);
      expect(finished).toMatchObject({ code: 1, stdout: "" });
      return finished.stderr;
    };
    await tokenFile("tokens-other.json", await tokenOf("user@example.com"));
    expect(await refused("other")).toContain("has no profile named other");
    await writeFile(configFile(), "{}");
    expect(await refused("user")).toContain('has no map "profiles"');
    await rm(configFile());
    expect(await refused("user")).toContain("profile user was asked for");
    await writeConfig();
  });

  it("is refused when it is missing, open to others, empty of tokens or expired", async () => {
    const run = async (file: string): Promise<CliFinished> => telemetry(["grants", "mine", "--token-file", file]);
    expect(await run("missing")).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("there is no token file") as string,
    });
    const file = path.join(home, "file");
    const cases: readonly (readonly [string, string])[] = [
      ["", "holds no identity token"],
      ["{}", "holds no identity token"],
      ['{"token": {"id_token": 5}}', "holds no identity token"],
      ['{"token": {"id_token": "a.b.c; x=y"}}', "holds no identity token"],
      ["svk_secret", "holds no identity token"],
    ];
    for (const [content, message] of cases) {
      await writeFile(file, content, { mode: 0o600 });
      const finished = await run(file);
      expect([content, finished.code, finished.stdout]).toEqual([content, 1, ""]);
      expect(finished.stderr).toContain(message);
      expect(finished.stderr).not.toContain(content || "svk_");
    }
    await writeFile(file, await tokenOf("admin@example.com"));
    await chmod(file, 0o644);
    expect((await run(file)).stderr).toContain(`run: chmod 600 ${file}`);
    const past = Math.floor(Date.now() / 1000) - 3600;
    const expired = (await identities.cookie("x@example.com", { iat: past - 9, exp: past })).slice(9);
    await writeFile(file, expired, { mode: 0o600 });
    await chmod(file, 0o600);
    const finished = await run(file);
    expect(finished.code).toBe(1);
    expect(finished.stderr).toContain("401 UNAUTHENTICATED");
    expect(finished.stderr).toContain(file);
    expect(finished.stderr).not.toContain(expired);
  });
});

describe("wrong usage", () => {
  it("exits with 2 and says what is right", async () => {
    const cases: readonly (readonly [readonly string[], string])[] = [
      [["keys"], "Usage: telemetry keys"],
      [["keys", "lst", "ingestion"], "Did you mean list?"],
      [["keys", "list"], "missing required argument 'ingestion|analytics'; see telemetry keys list --help"],
      [["keys", "list", "other"], "there are ingestion and analytics keys"],
      [["keys", "list", "ingestion", "extra"], "too many arguments"],
      [["keys", "list", "ingestion", "--limit", "0"], "--limit takes a whole number from 1"],
      [["keys", "list", "ingestion", "--limit", "5", "--all"], "--limit or --all, not both"],
      [["keys", "mint", "ingestion", "--all"], "unknown option '--all'"],
      [["keys", "list", "ingestion", "--name", "x"], "unknown option '--name'"],
      [["keys", "mint", "ingestion"], "--name is missing"],
      [["keys", "mint", "analytics", "--name", "x", "--audience", "a"], "has no audience"],
      [["keys", "revoke", "ingestion", ""], "an argument is empty; see telemetry keys revoke --help"],
      [["grants", "add", "a", "write", "*"], "a grant is for read or mint"],
      [["grants", "list", "--unknown"], "unknown option '--unknown'"],
      [["groups", "add", "a"], "missing required argument 'member'"],
      [["audit", "extra"], "too many arguments"],
    ];
    for (const [args, message] of cases) {
      const finished = await telemetry(args);
      expect([args, finished.code, finished.stdout]).toEqual([args, 2, ""]);
      expect(finished.stderr).toContain(message);
    }
  });

  it("is helped by --help, which asks for no token", async () => {
    for (const name of ["keys", "grants", "groups", "audit"]) {
      const finished = await telemetry([name, "--help", "--token-file", "missing"]);
      expect([finished.code, finished.stderr]).toEqual([0, ""]);
      expect(finished.stdout).toContain(`Usage: telemetry ${name}`);
      const { stdout } = await telemetry([name, "list", "--help"]);
      expect(stdout).toContain("--token-file <path>");
      expect((await telemetry(["--help"])).stdout).toContain(`  ${name}`);
    }
  });
});

describe("a server that is not there, or not ours", () => {
  it("exits with 1 and names the address, and the cookie goes nowhere else", async () => {
    const cookies: (string | undefined)[] = [];
    const elsewhere = createServer((request, response) => {
      cookies.push(request.headers.cookie);
      response.end("{}");
    });
    const redirecting = createServer((_request, response) => {
      const { port } = elsewhere.address() as AddressInfo;
      response.writeHead(302, { location: `http://127.0.0.1:${port}/` }).end();
    });
    for (const server of [elsewhere, redirecting]) {
      server.listen(0, "127.0.0.1");
      await once(server, "listening");
    }
    try {
      const { port } = redirecting.address() as AddressInfo;
      const moved = await telemetry(["audit", "--web-url", `http://127.0.0.1:${port}/x`]);
      expect(moved.code).toBe(1);
      expect(moved.stderr).toContain("answered 302");
      expect(cookies).toEqual([]);
    } finally {
      elsewhere.close();
      redirecting.close();
    }
    const gone = await telemetry(["audit", "--web-url", "http://127.0.0.1:1"]);
    expect([gone.code, gone.stdout]).toEqual([1, ""]);
    expect(gone.stderr).toContain("no answer from http://127.0.0.1:1: ");
    expect(gone.stderr).toContain("SVC_WEB_URL");
    const wrong = await telemetry(["audit", "--web-url", new URL(web.url).origin]);
    expect([wrong.code, wrong.stdout, wrong.stderr]).toEqual([
      1,
      "",
      "telemetry: no such path (404 NOT_FOUND); --web-url or SVC_WEB_URL says where the web server is\n",
    ]);
  });
});
