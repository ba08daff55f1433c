/** `telemetry groups`: groups of users, the reserved group admins among them. */
import { type AdminAction, column, requestOf, timeColumn } from "./action.js";
import { pagesOf } from "./pages.js";
import { routes } from "./routes.js";

const created = [timeColumn("created", "created_at"), column("by", "created_by", { shrinks: true })];

/** The actions of `telemetry groups`. */
export const groupActions: readonly AdminAction[] = [
  {
    name: "list",
    parameters: [],
    flags: ["limit", "all", "offset"],
    help: "lists groups, newest first",
    call: (_, values) => ({
      request: requestOf(routes.listGroups),
      pages: pagesOf(values, ["name"]),
      shown: { kind: "rows", columns: [column("name", "name"), ...created] },
    }),
  },
  {
    name: "create",
    parameters: ["group"],
    flags: [],
    help: "creates a group",
    call: ([name = ""]) => ({
      request: requestOf(routes.createGroup, { body: { name } }),
      shown: { kind: "fields" },
    }),
  },
  {
    name: "delete",
    parameters: ["group"],
    flags: [],
    help: "deletes a group, its members and its grants; never admins",
    call: ([name = ""]) => ({
      request: requestOf(routes.deleteGroup, { path: { name } }),
      shown: { kind: "line", line: "deleted" },
    }),
  },
  {
    name: "members",
    parameters: ["group"],
    flags: ["limit", "all", "offset"],
    help: "lists the members of a group, newest first",
    call: ([name = ""], values) => ({
      request: requestOf(routes.listGroupMembers, { path: { name } }),
      pages: pagesOf(values, ["member"]),
      shown: { kind: "rows", columns: [column("member", "member"), ...created] },
    }),
  },
  {
    name: "add",
    parameters: ["group", "member"],
    flags: [],
    help: "adds user:<email> or * to a group",
    call: ([name = "", member = ""]) => ({
      request: requestOf(routes.addGroupMember, { path: { name }, body: { member } }),
      shown: { kind: "fields" },
    }),
  },
  {
    name: "remove",
    parameters: ["group", "member"],
    flags: [],
    help: "removes a member from a group; never the last one of admins",
    call: ([name = "", member = ""]) => ({
      request: requestOf(routes.removeGroupMember, { path: { name }, query: { member } }),
      shown: { kind: "line", line: "removed" },
    }),
  },
];
