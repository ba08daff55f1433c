/** The process of one bench (session.ts): runs it and sends its figures to the parent. */
import { availableParallelism } from "node:os";

import { CannotMeasure } from "../figures.js";
import { benches } from "./benches.js";
import { Usage } from "./options.js";
import { cannotMeasureCode } from "./session.js";

const [id = "", ...argv] = process.argv.slice(2);
const bench = benches.find((one) => one.id === id);
if (bench === undefined) {
  throw new Error(`there is no bench ${id}`);
}
// Without a parent nobody would remove what this process makes.
process.once("disconnect", () => {
  process.exit(1);
});
try {
  const run = await bench.load();
  if (bench.cores > availableParallelism() && !argv.includes("--help")) {
    throw new CannotMeasure(`it needs ${bench.cores} cores: on fewer the load takes the time of what is measured`);
  }
  const figures = await run(argv);
  await new Promise((resolve) => {
    process.send?.(figures, resolve);
  });
} catch (error) {
  if (error instanceof Usage) {
    (error.isHelp ? console.log : console.error)(error.message);
    process.exitCode = error.isHelp ? 0 : 2;
  } else if (error instanceof CannotMeasure) {
    console.error(error.message);
    process.exitCode = cannotMeasureCode;
  } else {
    console.error(error instanceof Error ? error.stack : error);
    process.exitCode = 1;
  }
}
// A bench that failed has left its database and its threads to the parent: they must not keep this process.
process.exit();
