/**
 * Thread entry of the admin pool: validates and executes admin requests. It holds the web server's only
 * database connections and the actor of claims, so there is one such thread and no more.
 * It logs nothing: what goes wrong travels to the front as an error with its causes.
 */
import { createAdminService } from "../admin/admin-service.js";
import { createSilentLogger } from "../runtime/log/log.js";
import { serveTasks } from "../runtime/threads/task-worker.js";
import type { AdminThread } from "./admin-client.js";

export default await serveTasks<AdminThread>((settings) =>
  createAdminService({ ...settings, logger: createSilentLogger() }),
);
