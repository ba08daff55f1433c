/**
 * The rules of grants and groups over one snapshot; pure.
 *
 * - A `read` grant's member is `*` (every authenticated caller), `user:<email>`, `group:<name>` or `key:<key_id>`.
 * - A group's members are `user:<email>` and `*`. Groups do not nest.
 * - A caller without an email (every API key) matches no `user:` and no `group:` member.
 * - `admins` holding `*` makes every authenticated caller admin, API keys included; otherwise an admin
 *   is a caller whose email it holds. Being admin grants no reading.
 * - Emails compare without regard to the case of ASCII letters.
 */
import type { AudienceFilter } from "../../db/audience-filter.js";
import { asciiLower } from "../../runtime/text/identities.js";
import type { Principal } from "../principal.js";

/** One row of the snapshot: a read grant (`name` is the audience) or a group member (`name` the group). */
export interface GrantsRow {
  readonly source: "read" | "group";
  readonly name: string;
  readonly member: string;
}

/** Answers over one snapshot. */
export interface Grants {
  readAudiences(principal: Principal): AudienceFilter;
  isAdmin(principal: Principal): boolean;
  /** The group admins holds `*`. */
  readonly adminsOpen: boolean;
}

/** What servers that read groups log at every start while {@link Grants.adminsOpen}. */
export const adminsOpenWarning =
  "EVERYBODY IS AN ADMINISTRATOR, API keys included: the group admins holds *; add the administrators (telemetry groups add admins user:<email>), then remove * (telemetry groups remove admins '*')";

const adminsGroup = "admins";
const everybody = "*";
const none: ReadonlySet<string> = new Set();

const userMember = (email: string): string => `user:${asciiLower(email)}`;
// The email of a member compares in lower case; names of groups and ids of keys exactly.
const canonical = (member: string): string => (member.startsWith("user:") ? asciiLower(member) : member);

function addTo(map: Map<string, Set<string>>, key: string, value: string): void {
  const known = map.get(key);
  if (known === undefined) {
    map.set(key, new Set([value]));
  } else {
    known.add(value);
  }
}

/** Index the rows of a snapshot. @param unstampedAudience `SVC_UNSTAMPED_AUDIENCE`, may be empty. */
export function buildGrants(rows: readonly GrantsRow[], unstampedAudience: string): Grants {
  const audiencesOf = new Map<string, Set<string>>();
  const groupsOf = new Map<string, Set<string>>();
  for (const row of rows) {
    if (row.source === "read") {
      addTo(audiencesOf, canonical(row.member), row.name);
    } else {
      addTo(groupsOf, canonical(row.member), row.name);
    }
  }
  const groupsOfEverybody = groupsOf.get(everybody) ?? none;

  const membersMatching = (principal: Principal): string[] => {
    const members = [everybody];
    if (principal.kind === "ingestion_key" || principal.kind === "analytics_key") {
      if (principal.keyId !== null) {
        members.push(`key:${principal.keyId}`);
      }
      return members;
    }
    if (principal.email === null) {
      return members;
    }
    const user = userMember(principal.email);
    members.push(user);
    for (const group of groupsOfEverybody) {
      members.push(`group:${group}`);
    }
    for (const group of groupsOf.get(user) ?? none) {
      members.push(`group:${group}`);
    }
    return members;
  };

  const adminsOpen = groupsOfEverybody.has(adminsGroup);
  return {
    adminsOpen,
    readAudiences(principal) {
      const audiences = new Set<string>();
      for (const member of membersMatching(principal)) {
        for (const audience of audiencesOf.get(member) ?? none) {
          audiences.add(audience);
        }
      }
      const unstamped = unstampedAudience !== "" && audiences.has(unstampedAudience);
      return { kind: "some", audiences, unstamped };
    },
    isAdmin(principal) {
      if (adminsOpen) {
        return true;
      }
      if (principal.email === null) {
        return false;
      }
      return groupsOf.get(userMember(principal.email))?.has(adminsGroup) === true;
    },
  };
}
