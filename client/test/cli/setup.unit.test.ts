import { execFileSync } from "node:child_process";
import { describe, expect, it } from "vitest";

import { script } from "../../src/cli/setup-command.js";

const awkward = String.raw`a'b"c$d\e` + "`f g";

describe("the variables of telemetry setup", () => {
  it("mean in sh what they say", () => {
    const text = script([["X", awkward]], "sh");
    expect(execFileSync("sh", ["-c", `${text}printf %s "$X"`]).toString()).toBe(awkward);
  });

  it("are quoted as each shell wants it", () => {
    expect(script([["X", "a'b"]], "fish")).toBe("set -gx X 'a\\'b'\n");
    expect(script([["X", "a'b"]], "powershell")).toBe("$env:X = 'a''b'\n");
    expect(script([["X", 'a"b$c']], "dotenv")).toBe('X="a\\"b\\$c"\n');
  });
});
