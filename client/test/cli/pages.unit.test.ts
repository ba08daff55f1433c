import { expect, it } from "vitest";

import { readPages } from "../../src/cli/admin/pages.js";

it("a row that slides to the next page while lists are read is shown once", async () => {
  let asked = 0;
  const added = { name: "added" };
  const rows = Array.from({ length: 700 }, (_, i) => ({ name: `n${i}` }));
  const listed = await readPages(
    { limit: Number.POSITIVE_INFINITY, offset: 0, identity: ["name"] },
    { method: "GET", path: "/" },
    ({ query }) => {
      const now = asked++ === 0 ? rows : [added, ...rows];
      const from = Number(query?.["offset"] ?? 0);
      return Promise.resolve(now.slice(from, from + Number(query?.["limit"])));
    },
  );
  expect(listed).toEqual(rows);
  expect(asked).toBe(2);
});
