/** Thread entry of the gate: one text at a time. */
import { gateTrees } from "../query/backend/gate-trees.js";
import { serveTasks } from "../runtime/threads/task-worker.js";
import type { GateMethods } from "./gate-client.js";

export default await serveTasks<GateMethods>(() => ({ gate: gateTrees }));
