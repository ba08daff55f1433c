import { expect, it } from "vitest";

import { grpcStatusOf } from "../../../src/routes/flight/status.js";
import { ServiceError } from "../../../src/runtime/errors.js";
import { createRecordingLogger } from "../../helpers/auth/auth-fixture.js";

it.each([
  ["INTERNAL", 1],
  ["NOT_CONFIGURED", 1],
  ["BAD_REQUEST", 0],
  ["UNAVAILABLE", 0],
] as const)("of %s is logged where only the operator can mend it", (code, logged) => {
  const { logger, lines } = createRecordingLogger();
  grpcStatusOf(new ServiceError(code, undefined, { cause: new Error("permission denied") }), logger);
  expect(lines.filter((line) => JSON.stringify(line).includes("permission denied"))).toHaveLength(logged);
});
