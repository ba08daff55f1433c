import { Link } from "@tanstack/react-router";
import { Lock } from "lucide-react";
import type { ReactElement } from "react";

import { usePerson } from "../../api/session.js";
import { EmptyState } from "../../ui/states.js";

/** In place of a page for administrators. */
export function AdminsOnly(): ReactElement {
  const { email, name } = usePerson();
  return (
    <EmptyState
      icon={<Lock />}
      title="This page is for administrators"
      actions={<Link to="/audiences">See what you may do</Link>}
    >
      You are logged in as {email ?? name}. Administrators are the members of the group admins; one of them can add you.
    </EmptyState>
  );
}
