/** The session option that says where a query runs. */
import { ServiceError } from "../../runtime/errors.js";

/** `auto`: on the cluster, when there is one, from a size on. */
export type EngineChoice = "local" | "cluster" | "auto";

/** Whether a text names a choice. */
export function isEngineChoice(text: string): text is EngineChoice {
  return text === "local" || text === "cluster" || text === "auto";
}

/** @throws ServiceError BAD_REQUEST */
export function parseEngineChoice(text: string): EngineChoice {
  if (!isEngineChoice(text)) {
    throw new ServiceError("BAD_REQUEST", "query-engine is local, cluster or auto.");
  }
  return text;
}
