/** `telemetry screens`, `usage` and `denials` against a real web server. */
import { mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";

import { type CliFinished, runCommand } from "../helpers/cli/run-cli.js";
import { type QueryWorld, startQueryWorld } from "../helpers/web/query-world.js";

let world: QueryWorld;
let home: string;
let admin: string;

beforeAll(async () => {
  home = await mkdtemp(path.join(tmpdir(), "cli-screens-"));
  world = await startQueryWorld();
  admin = await world.cookie("admin@example.com");
  for (const name of ["admin", "guest"]) {
    const token = (await world.cookie(`${name}@example.com`)).slice("id_token=".length);
    await writeFile(path.join(home, name), token, { mode: 0o600 });
  }
});
afterAll(async () => {
  await world.stop();
  await rm(home, { recursive: true, force: true });
});

const telemetry = (args: readonly string[], who = "admin"): Promise<CliFinished> =>
  runCommand([...args, "--token-file", path.join(home, who)], {
    env: { SVC_WEB_URL: world.web.url },
    homeDirectory: home,
    workingDirectory: home,
  });

/** The state of each screen by its path. */
async function screens(action: string, more: readonly string[] = []): Promise<Record<string, string>> {
  const { stdout, stderr } = await telemetry(["screens", action, ...more, "--json"], "admin");
  expect(stderr).toBe("");
  const rows = JSON.parse(stdout) as { path: string; state: string }[];
  return Object.fromEntries(rows.map((row) => [row.path, row.state]));
}

const put = (name: string, body: Record<string, unknown>) =>
  world.web.request("PUT", `/api/screens/${encodeURIComponent(name)}`, { cookie: admin, body });
const fileOf = (name: string): string => path.join(home, "screens", name);
const edit = async (name: string, change: Record<string, unknown>): Promise<void> => {
  const file = JSON.parse(await readFile(fileOf(name), "utf8")) as Record<string, unknown>;
  await writeFile(fileOf(name), JSON.stringify({ ...file, ...change }));
};

describe("telemetry screens", () => {
  beforeEach(async () => {
    await rm(path.join(home, "screens"), { recursive: true, force: true });
    await world.web.request("GET", "/api/screens", { cookie: admin });
    await world.analytics.sql`truncate web.screens, web.deleted_screens, web.folders cascade`;
    await world.web.request("POST", "/api/folders", { cookie: admin, body: { name: "team" } });
    await put("errors", { config: { cells: [{ kind: "table", sql: "SELECT 1" }] } });
    await put("latency", { folder: "team", config: { cells: [] } });
  });

  it("pulls screens into files by folder, and finds nothing to do the second time", async () => {
    expect(await screens("pull")).toEqual({ "errors.json": "written", "team/latency.json": "written" });
    expect(JSON.parse(await readFile(fileOf("team/latency.json"), "utf8"))).toEqual({
      format: 1,
      name: "latency",
      folder: "team",
      version: 1,
      config: { cells: [] },
    });
    expect(await screens("pull")).toEqual({ "errors.json": "unchanged", "team/latency.json": "unchanged" });
    expect(await screens("push")).toEqual({ "errors.json": "unchanged", "team/latency.json": "unchanged" });
    expect(await screens("pull", ["elsewhere", "--folder", "team"])).toEqual({ "team/latency.json": "written" });
  });

  it.each(["push", "diff"])("%s fails where there is no such directory", async (action) => {
    expect(await telemetry(["screens", action, "screns"])).toEqual({
      code: 1,
      stdout: "",
      stderr: `telemetry: there is no directory ${path.join(home, "screns")}\n`,
    });
  });

  it("pushes what was changed, and says where it differs", async () => {
    await screens("pull");
    await edit("errors.json", { config: { cells: [{ kind: "table", sql: "SELECT 2" }], title: "Errors" } });
    const { stdout } = await telemetry(["screens", "diff"]);
    expect(stdout).toContain("changed    errors.json  cells[0].sql, title");
    expect(await screens("push")).toEqual({ "errors.json": "saved", "team/latency.json": "unchanged" });
    const saved = await world.web.request("GET", "/api/screens/errors", { cookie: admin });
    expect(saved.json).toMatchObject({ version: 2, config: { title: "Errors" } });
    expect(await screens("diff")).toEqual({ "errors.json": "unchanged", "team/latency.json": "unchanged" });
  });

  it.each([
    [["service", "service"], "a variable cannot be called “service”: another variable has that name"],
    [["interval"], "a variable cannot be called “interval”: $interval is the seconds of a bucket"],
    [["a b"], "a variable cannot be called “a b”: letters, digits and _"],
    [[""], "a variable cannot be called “”: letters, digits and _"],
  ])("pushes no screen with variables %j, which its page would not save, and keeps no other", async (names, words) => {
    await screens("pull");
    const [first, ...others] = names.map((name) => ({ kind: "variable", name }));
    await edit("errors.json", { config: { cells: [first, { kind: "group", cells: others }] } });
    await edit(path.join("team", "latency.json"), { config: { cells: [{ kind: "variable", name: "service" }] } });
    const refused = await telemetry(["screens", "push"]);
    expect(refused.code).toBe(1);
    expect(refused.stdout).toContain(words);
    expect(refused.stdout).toMatch(/saved +team\/latency.json/);
  });

  it("overwrites nothing that others have saved since, and nothing that was changed here, without --force", async () => {
    await screens("pull");
    await put("errors", { version: 1, config: { by: "somebody else" } });
    await edit("errors.json", { config: { by: "me" } });
    expect(await screens("diff")).toMatchObject({ "errors.json": "behind" });
    const refused = await telemetry(["screens", "push"]);
    expect(refused.code).toBe(1);
    expect(refused.stdout).toMatch(/refused +errors.json +admin@example.com has saved version 2.*409 CONFLICT/);
    expect(await screens("push", ["--force"])).toMatchObject({ "errors.json": "saved" });
    await edit("errors.json", { config: { by: "me again" } });
    const kept = await telemetry(["screens", "pull"]);
    expect([kept.code, kept.stdout]).toEqual([1, expect.stringMatching(/kept +errors.json/)]);
    expect(await screens("pull", ["--force"])).toMatchObject({ "errors.json": "written" });
    expect(await screens("diff")).toMatchObject({ "errors.json": "unchanged" });
  });

  it("pulls over a file that was not changed here, and keeps one that was when others have saved since", async () => {
    await screens("pull");
    await put("errors", { version: 1, config: { by: "somebody else" } });
    await put("latency", { version: 1, folder: "team", config: { by: "somebody else" } });
    await edit("errors.json", { config: { by: "me" } });
    const kept = await telemetry(["screens", "pull"]);
    expect(kept.code).toBe(1);
    expect(kept.stdout).toMatch(
      /kept +errors.json +it was changed here since version 1, and the server has version 2;/,
    );
    expect(kept.stdout).toMatch(/written +team.latency.json/);
    expect(JSON.parse(await readFile(fileOf("errors.json"), "utf8"))).toMatchObject({ config: { by: "me" } });
    const fresh = { format: 1, name: "latency", folder: "team", version: 0, config: { by: "me" } };
    await writeFile(fileOf("team/latency.json"), JSON.stringify(fresh));
    expect(await screens("pull")).toMatchObject({ "team/latency.json": "kept" });
  });

  it("has one file for each screen, which moves with its folder, or stays where somebody has put it", async () => {
    await screens("pull");
    await rename(fileOf("errors.json"), fileOf("mine.json"));
    await edit("mine.json", { config: { by: "me" } });
    expect(await screens("push")).toEqual({ "mine.json": "saved", "team/latency.json": "unchanged" });
    await put("errors", { version: 2, folder: "team", config: {} });
    await put("latency", { version: 1, config: {} });
    expect(await screens("pull")).toEqual({ "mine.json": "written", "latency.json": "written" });
    expect(await screens("diff")).toEqual({ "mine.json": "unchanged", "latency.json": "unchanged" });
  });

  it("takes names that are too long for a file", async () => {
    await put("é".repeat(127), { config: {} });
    await put("?".repeat(255), { config: {} });
    await put(`${"?".repeat(254)}!`, { config: {} });
    expect(Object.keys(await screens("pull"))).toHaveLength(5);
    expect(new Set(Object.values(await screens("push")))).toEqual(new Set(["unchanged"]));
  });

  it("makes screens of new files, and tells what is on the server only", async () => {
    await mkdir(path.join(home, "screens"));
    const file = { format: 1, name: "new", folder: null, version: 0, config: {} };
    await writeFile(fileOf("new.json"), JSON.stringify(file));
    expect(await screens("diff")).toEqual({
      "new.json": "new",
      "errors.json": "missing",
      "team/latency.json": "missing",
    });
    expect(await screens("push")).toEqual({ "new.json": "saved" });
    // Another's screen is not one's own.
    await edit("new.json", { config: { mine: true } });
    const refused = await telemetry(["screens", "push"], "guest");
    expect([refused.code, refused.stdout]).toEqual([1, expect.stringContaining("403 FORBIDDEN")]);
  });

  it("writes no file outside of its directory, whatever a screen is called", async () => {
    await put("..%2f..%2fetc:passwd", { config: {} });
    await put(".hidden.", { config: {} });
    const states = await screens("pull");
    expect(Object.keys(states)).toContain("%2Ehidden%2E.json");
    const files = await readdir(path.join(home, "screens"), { recursive: true });
    expect(files.filter((file) => file.endsWith(".json"))).toHaveLength(4);
    expect(Object.values(await screens("push"))).toEqual(Array(4).fill("unchanged"));
  });

  it.each([
    ['{"format": 2}', /new.json has format 2, and this release reads 1: upgrade/],
    ["{", /new.json is no JSON/],
    [
      '{"format": 1, "screens": [{"name": "a", "config": {}}, {"name": "b", "config": {}}]}',
      /new.json holds several screens/,
    ],
    ['{"format": 1, "screens": []}', /new.json holds no screen/],
    ["{}", /new.json is no file of screens: it has no format/],
    ['{"format": 1, "name": "x"}', /new.json is no file of screens: each has name/],
  ])("refuses a file with %s in a sentence, and pushes nothing", async (content, message) => {
    await screens("pull");
    await edit("errors.json", { config: {} });
    await writeFile(fileOf("new.json"), content);
    const { code, stderr } = await telemetry(["screens", "push"]);
    expect([code, stderr]).toEqual([1, expect.stringMatching(message)]);
    const untouched = await world.web.request("GET", "/api/screens/errors", { cookie: admin });
    expect(untouched.json).toMatchObject({ version: 1 });
  });
});

it("shows what keys were used for", async () => {
  const { key_id: id } = (
    await world.web.request("POST", "/api/ingestion-api-keys", { cookie: admin, body: { name: "k", audience: "used" } })
  ).json as { key_id: string };
  await world.analytics.sql`
    insert into api_key_usage (key_id, hour, requests, bytes, records)
    values (${id}, date_trunc('hour', now()), 3, 30, 300)`;
  const { code, stdout } = await telemetry(["usage", "--begin", "-2h", "--step", "day"]);
  expect(code).toBe(0);
  expect(stdout).toMatch(/k +│ used +│ +3 │ +30 │ +300/);
  expect((await telemetry(["usage", "--json"], "guest")).stdout).toBe("[]\n");
  expect(await telemetry(["usage", "--begin", "whenever"])).toMatchObject({ code: 2 });
});

it("adds, lists, tests and removes rules of the deny list", async () => {
  const rule = "contains(sql, 'never')";
  expect((await telemetry(["denials", "test", rule, "SELECT 'never'"])).stdout).toMatch(/matches +true/);
  const added = await telemetry(["denials", "add", rule, "too slow", "--json"]);
  const { rule_id: id } = JSON.parse(added.stdout) as { rule_id: string };
  expect((await telemetry(["denials", "list"])).stdout).toContain("too slow");
  expect((await telemetry(["denials", "remove", id])).stdout).toBe("removed\n");
  const refused = await telemetry(["denials", "list"], "guest");
  expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining("403 FORBIDDEN")]);
});
