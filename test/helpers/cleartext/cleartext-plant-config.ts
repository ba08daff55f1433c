/** A vitest run of cleartext-plant.ts alone, under the same watch as the suite, without its database. */
export default {
  test: {
    include: ["dist/test/helpers/cleartext/cleartext-plant.js"],
    globalSetup: ["dist/test/helpers/cleartext/cleartext-watch.js"],
    setupFiles: ["dist/test/helpers/cleartext/cleartext-setup.js"],
    pool: "forks",
  },
};
