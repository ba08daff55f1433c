import { Link } from "@tanstack/react-router";
import { Compass } from "lucide-react";
import type { ReactElement } from "react";

import { EmptyState } from "../../ui/states.js";

export function NotFound(): ReactElement {
  return (
    <EmptyState icon={<Compass />} title="There is no such page" actions={<Link to="/">Go to the first page</Link>}>
      The address may be mistyped, or of another version of the service.
    </EmptyState>
  );
}
