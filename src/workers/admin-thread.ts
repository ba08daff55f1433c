/**
 * Thread entry of the admin pool: validates and executes admin requests. It holds the server's only
 * database connections and the actor of claims, which is why there is one such thread and no more.
 * It logs nothing: what goes wrong travels to the front as an error with its causes.
 */
import { createAdminService } from "../admin/admin-service.js";
import { createSilentLogger } from "../runtime/log/log.js";
import { defineTask, taskWorkerData } from "../runtime/threads/task-worker.js";
import type { AdminRequest, AdminResponse, AdminWorkerData } from "./admin-messages.js";

const data = taskWorkerData() as AdminWorkerData;
const service = createAdminService({ ...data, logger: createSilentLogger() });

export default defineTask<AdminRequest, AdminResponse>(async (request) => {
  switch (request.kind) {
    case "call":
      return await service.handle(request.call);
    case "withdraw":
      await service.withdraw(request.minted);
      return null;
    case "standing":
      return await service.standing(request.caller);
    case "probe":
      return { problem: await service.probe() };
    case "stop":
      await service.stop();
      return null;
  }
});
