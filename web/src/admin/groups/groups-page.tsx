/** Groups: people under one name, for grants; the members of `admins` administer. */
import { UsersRound, X } from "lucide-react";
import { type ReactElement, useState } from "react";

import type { Group, GroupMember } from "../../api/wire.js";
import { call } from "../../api/call.js";
import { usePerson } from "../../api/session.js";
import { useChangeSearch } from "../../app/search.js";
import { IconButton, TextField } from "../../ui/controls/controls.js";
import { formatTime } from "../../ui/format.js";
import { useGoneFocus } from "../../ui/panel.js";
import { Banner, Skeleton } from "../../ui/states.js";
import { toast } from "../../ui/toast.js";
import type { TableColumn } from "../../ui/table/table-columns.js";
import css from "../admin.module.css";
import { useInvalidate, useList, useTask } from "../api.js";
import { memberWords } from "../audiences/grants.js";
import { useCheckedForm } from "../checked-form.js";
import { AdminError, ConfirmButton, Form, NotAnew } from "../form.js";
import { Facts, ListPage, textColumn, timeColumn, timeText } from "../list-page.js";
import { textProblem, textRules } from "../rules.js";

const admins = "admins";
const idOf = ({ name }: Group): string => name;

function columnsOf(rows: readonly Group[]): readonly TableColumn[] {
  return [
    textColumn(rows, "name", "Group", ({ name }) => name, { width: 240 }),
    timeColumn(rows, "created_at", "Made", ({ created_at: at }) => at),
    textColumn(rows, "created_by", "By", ({ created_by: by }) => by),
  ];
}

export default function GroupsPage(): ReactElement {
  const query = useList<Group>(["groups"], "api/groups");
  return (
    <ListPage
      noun="groups"
      intro="A grant to group:<name> is a grant to each of its members. The members of admins are the administrators."
      query={query}
      idOf={idOf}
      columns={columnsOf}
      empty={{
        icon: <UsersRound />,
        title: "No group yet",
        text: "Make one, and grant audiences to all in it at once.",
      }}
      add={{ label: "Make a group", title: "Make a group", form: (close) => <GroupForm onCancel={close} /> }}
      panel={(row, close) => ({
        title: row.name,
        body: <GroupDetails key={row.name} row={row} onDeleted={close} />,
      })}
    />
  );
}

function GroupForm({ onCancel }: { readonly onCancel: () => void }): ReactElement {
  const [name, setName] = useState("");
  const change = useChangeSearch();
  const invalidate = useInvalidate();
  const { form, problem } = useCheckedForm({ name: textProblem("name", name, textRules.group) }, async () => {
    await call("api/groups", { method: "POST", body: { name } });
    await invalidate("groups");
    return () => change({ new: undefined, open: name });
  });
  return (
    <Form label="Make a group" submit="Make the group" onCancel={onCancel} {...form}>
      <TextField
        label="Name"
        hint="For example team-checkout. It cannot be changed later."
        value={name}
        onChange={({ target }) => setName(target.value)}
        problem={problem("name")}
      />
    </Form>
  );
}

function GroupDetails({ row, onDeleted }: { readonly row: Group; readonly onDeleted: () => void }): ReactElement {
  const { name } = row;
  const path = `api/groups/${encodeURIComponent(name)}`;
  const invalidate = useInvalidate();
  const members = useList<GroupMember>(["group-members", name], `${path}/members`);
  const isOpen = name === admins && members.data?.some(({ member }) => member === "*") === true;
  return (
    <>
      {isOpen ? (
        <Banner kind="warn" title="Everybody is an administrator">
          <p>* is everybody who logs in. Add the administrators by their emails, then take * out.</p>
        </Banner>
      ) : null}
      <Facts facts={[["Made", `${timeText(row.created_at)} by ${row.created_by}`]]} />
      <section className={css.section} aria-labelledby="members">
        <h3 id="members">Members</h3>
        {/* Above the list, which would push it away when it comes. */}
        <AddMember group={name} path={path} />
        {members.data === undefined ? (
          members.error === null ? (
            <Skeleton rows={2} />
          ) : (
            <AdminError error={members.error} onRetry={() => void members.refetch()} />
          )
        ) : (
          <>
            <NotAnew list={members} noun="members" />
            <Members group={name} members={members.data} path={path} />
          </>
        )}
      </section>
      {name === admins ? (
        <p className={css.muted}>The group admins cannot be deleted, and keeps at least one member.</p>
      ) : (
        <div className={css.actions}>
          <ConfirmButton
            label="Delete…"
            title={`Delete the group “${name}”?`}
            confirm={`Delete “${name}”`}
            done={`The group “${name}” is deleted`}
            onConfirm={async () => {
              await call(path, { method: "DELETE" });
              await invalidate("groups", "grants", "my-audiences");
              onDeleted();
            }}
          >
            <p>Its members lose what is granted to group:{name}, and these grants are deleted with it.</p>
          </ConfirmButton>
        </div>
      )}
    </>
  );
}

function Members({
  group,
  members,
  path,
}: {
  readonly group: string;
  readonly members: readonly GroupMember[];
  readonly path: string;
}): ReactElement {
  const { email } = usePerson();
  const invalidate = useInvalidate();
  const remove = useTask(async (member: string) => {
    await call(`${path}/members`, { method: "DELETE", query: { member } });
    await invalidate("group-members", "my-audiences");
    toast(`${member} is out of ${group}`);
  });
  const goneFocus = useGoneFocus<HTMLDivElement>();
  return (
    <div className={css.section} {...goneFocus}>
      {members.length === 0 ? (
        <p className={css.muted}>Nobody yet. Add somebody by email.</p>
      ) : (
        <ul className={css.members} aria-label={`Members of ${group}`}>
          {members.map(({ member, created_at: at, created_by: by }) => (
            <li key={member}>
              <span title={`Added by ${by}, ${formatTime(Date.parse(at), { digits: 0 })}`}>{memberWords(member)}</span>
              {member === `user:${email}` ? <span className={css.tag}>you</span> : null}
              {group === admins && member === `user:${email}` ? (
                <ConfirmButton
                  label="Take out…"
                  title="Take yourself out of admins?"
                  confirm={`Take ${member} out`}
                  done={`${member} is out of ${group}`}
                  onConfirm={async () => {
                    await call(`${path}/members`, { method: "DELETE", query: { member } });
                    await invalidate("group-members", "my-audiences");
                  }}
                >
                  <p>You are no administrator then, and cannot put yourself back.</p>
                </ConfirmButton>
              ) : (
                <IconButton label={`Take ${member} out`} busy={remove.busy} onClick={() => remove.run(member)}>
                  <X />
                </IconButton>
              )}
            </li>
          ))}
        </ul>
      )}
      {remove.error === null ? null : <AdminError error={remove.error} />}
    </div>
  );
}

function AddMember({ group, path }: { readonly group: string; readonly path: string }): ReactElement {
  const [member, setMember] = useState("");
  const invalidate = useInvalidate();
  // An email alone says enough.
  const meant = member === "*" || member.startsWith("user:") ? member : member === "" ? "" : `user:${member}`;
  const problems = { member: textProblem("member", meant, textRules.groupMember) };
  const { form, problem } = useCheckedForm(problems, async () => {
    await call(`${path}/members`, { method: "POST", body: { member: meant } });
    setMember((now) => (now === member ? "" : now)); // who types the next one meanwhile keeps it
    await invalidate("group-members", "my-audiences");
    toast(`${meant} is in ${group}`);
  });
  return (
    <Form label={`Add to ${group}`} submit="Add" {...form}>
      <TextField
        label="Add somebody"
        hint="An email, or * for everybody"
        value={member}
        spellCheck={false}
        onChange={({ target }) => setMember(target.value)}
        problem={problem("member")}
      />
    </Form>
  );
}
