/** The session option that says where a query runs. */
import { ServiceError } from "../../runtime/errors.js";

/** `auto`: on the cluster, when there is one, from a size on. */
export type EngineChoice = "local" | "cluster" | "auto";

/** @throws ServiceError BAD_REQUEST */
export function parseEngineChoice(text: string | undefined): EngineChoice {
  switch (text) {
    case undefined:
      return "auto";
    case "local":
    case "cluster":
    case "auto":
      return text;
    default:
      throw new ServiceError("BAD_REQUEST", "query-engine is local, cluster or auto.");
  }
}
