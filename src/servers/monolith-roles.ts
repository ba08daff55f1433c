/** Which roles a monolith plays. */
import type { Config } from "../runtime/config/parse.js";
import { type MonolithRole, monolithRoles } from "../runtime/config/table.js";
import { ServiceError } from "../runtime/errors.js";
import { hasDevelopmentLogin } from "./development/login.js";

/**
 * The roles asked for; `all` leaves out those that cannot run.
 * @throws ServiceError NOT_CONFIGURED when one of them was named
 */
export function rolesToPlay(config: Config<"monolith">): {
  readonly roles: ReadonlySet<MonolithRole>;
  /** Why, by role. */
  readonly leftOut: ReadonlyMap<MonolithRole, string>;
} {
  const asked = config.roles === "all" ? monolithRoles : config.roles;
  const roles = new Set<MonolithRole>();
  const leftOut = new Map<MonolithRole, string>();
  for (const role of asked) {
    const reason = obstacle(role, config);
    if (reason === null) {
      roles.add(role);
    } else if (config.roles === "all") {
      leftOut.set(role, reason);
    } else {
      throw new ServiceError("NOT_CONFIGURED", `the role ${role} cannot run: ${reason}`);
    }
  }
  return { roles, leftOut };
}

/** Why a role cannot run, or null. */
function obstacle(role: MonolithRole, config: Config<"monolith">): string | null {
  if (role !== "web") {
    return null;
  }
  if (config.disableAuth) {
    // Named, it runs and answers that keys cannot be administered.
    return config.roles === "all" ? "authentication is off, so nobody can log in" : null;
  }
  return config.oidcConfig === null && !hasDevelopmentLogin(config)
    ? "nobody can log in without SVC_OIDC_CONFIG"
    : null;
}

/** Maintenance looks after what ingestion writes, and has its rights: where both are played, its stores as well. */
export function storesAs<R extends MonolithRole>(role: R, roles: ReadonlySet<MonolithRole>): R | "ingestion" {
  return role === "maintenance" && roles.has("ingestion") ? "ingestion" : role;
}
