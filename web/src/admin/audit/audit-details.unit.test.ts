import { expect, it } from "vitest";

import { detailText } from "./audit-details.js";

it("begins with what was changed, and ends with who asked from where", () => {
  // In the order of Postgres: shorter names first.
  const details = { from: "127.0.0.1", name: "build", issuer: "https://id", member: "user:ann@x", subject: "7" };
  expect(detailText(details)).toBe("member=user:ann@x from=127.0.0.1 issuer=https://id subject=7");
  expect(detailText({ days: 30, subject: "7" })).toBe("days=30 subject=7");
});
